import warnings
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from whorl.data.decode import Pixels, decode
from whorl.errors import WhorlError


def saved(image: Image.Image, kind: str = "PNG", **options: Any) -> BytesIO:
    file = BytesIO()
    image.save(file, kind, **options)
    file.seek(0)
    return file


def everywhere(pixels: Pixels, colour: tuple[int, int, int], within: int = 0) -> None:
    assert pixels.dtype == np.uint8
    assert np.abs(pixels.astype(int) - np.array(colour)).max() <= within


@pytest.mark.parametrize(
    ("mode", "colour", "kind", "expected"),
    [
        ("RGB", (10, 20, 30), "PNG", (10, 20, 30)),
        ("L", 77, "PNG", (77, 77, 77)),
        ("1", 1, "PNG", (255, 255, 255)),
        ("1", 0, "PNG", (0, 0, 0)),
        ("LA", (100, 255), "PNG", (100, 100, 100)),
        ("LA", (100, 0), "PNG", (255, 255, 255)),
        ("RGBA", (10, 20, 30, 255), "PNG", (10, 20, 30)),
        ("RGBA", (10, 20, 30, 0), "PNG", (255, 255, 255)),
        ("RGBA", (0, 100, 200, 51), "PNG", (204, 224, 244)),  # a fifth of the colour, four fifths of white
        ("I;16", 257 * 200, "PNG", (200, 200, 200)),
        ("I;16", 65535, "TIFF", (255, 255, 255)),
        ("I;16B", 257 * 9, "TIFF", (9, 9, 9)),
        ("I", 257 * 131, "TIFF", (131, 131, 131)),
        ("I", 1_000_000, "TIFF", (255, 255, 255)),
        ("CMYK", (0, 255, 255, 0), "TIFF", (255, 0, 0)),
        ("CMYK", (0, 0, 0, 255), "TIFF", (0, 0, 0)),
    ],
)
def test_one_colour_in_every_mode(mode: str, colour: Any, kind: str, expected: tuple[int, int, int]) -> None:
    file = saved(Image.new(mode, (20, 12), colour), kind)
    everywhere(decode(file, 8), expected)


def test_cmyk_and_grey_jpeg() -> None:
    everywhere(decode(saved(Image.new("CMYK", (40, 40), (255, 0, 255, 0)), "JPEG"), 8), (0, 255, 0), within=4)
    everywhere(decode(saved(Image.new("L", (40, 40), 90), "JPEG"), 8), (90, 90, 90), within=1)


def palette() -> Image.Image:
    image = Image.new("P", (12, 12), 1)
    image.putpalette([255, 0, 0, 0, 128, 0])
    return image


def test_palette_with_and_without_transparency() -> None:
    everywhere(decode(saved(palette()), 8), (0, 128, 0))
    everywhere(decode(saved(palette(), transparency=1), 8), (255, 255, 255))
    everywhere(decode(saved(palette(), transparency=bytes([0, 255])), 8), (0, 128, 0))
    everywhere(decode(saved(palette(), "GIF"), 8), (0, 128, 0))


def test_palette_transparency_survives_the_crop() -> None:
    wide = palette().resize((30, 12))
    everywhere(decode(saved(wide, transparency=bytes([255, 0])), 8), (255, 255, 255))


def test_transparent_colour_of_an_rgb_image() -> None:
    everywhere(decode(saved(Image.new("RGB", (12, 9), (1, 2, 3)), transparency=(1, 2, 3)), 4), (255, 255, 255))


def test_sixteen_bits_keep_their_range() -> None:
    ramp = np.linspace(0, 65535, 64 * 64).reshape(64, 64).astype(np.uint16)
    expected = np.rint(ramp / 257)
    assert np.array_equal(decode(saved(Image.fromarray(ramp)), 64)[..., 1], expected)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_upright(orientation: int) -> None:
    corners = np.zeros((8, 8, 3), np.uint8)
    corners[0, 0], corners[0, -1], corners[-1, 0] = (255, 0, 0), (0, 255, 0), (0, 0, 255)
    # The pixels as stored by the camera: the inverse of the transformation that the tag stands for.
    stored = {
        1: corners,
        2: corners[:, ::-1],
        3: corners[::-1, ::-1],
        4: corners[::-1],
        5: corners.transpose(1, 0, 2),
        6: np.rot90(corners),
        7: corners[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(corners, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert np.array_equal(decode(saved(Image.fromarray(np.ascontiguousarray(stored)), exif=exif), 8), corners)


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
@pytest.mark.parametrize("block", [b"Exif\0\0" + b"\xff" * 40, b"nonsense"])
def test_a_damaged_exif_block_is_ignored(kind: str, block: bytes) -> None:
    everywhere(decode(saved(Image.new("RGB", (20, 12), (90, 90, 90)), kind, exif=block), 8), (90, 90, 90), within=1)


def test_rotated_even_if_the_exif_block_cannot_be_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow removes the tag after rotating, which may fail if other parts of the block are damaged."""
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 3
    file = saved(Image.fromarray(pixels), exif=exif)

    def fail(self: Image.Exif, offset: int = 8) -> bytes:
        raise ValueError("damaged")

    monkeypatch.setattr(Image.Exif, "tobytes", fail)
    assert np.array_equal(decode(file, 8), pixels[::-1, ::-1])


@pytest.mark.parametrize("shape", [(40, 90, 3), (90, 40, 3), (41, 90, 3), (33, 33, 3)])
@pytest.mark.parametrize("size", [8, 33, 64])
def test_centre_square_antialiased(shape: tuple[int, int, int], size: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    side = min(shape[:2])
    top, left = (shape[0] - side) // 2, (shape[1] - side) // 2
    square = Image.fromarray(np.ascontiguousarray(pixels[top : top + side, left : left + side]))
    expected = np.asarray(square.resize((size, size), Image.Resampling.BILINEAR))
    assert np.array_equal(decode(saved(Image.fromarray(pixels)), size), expected)


def test_reduced_jpeg_decoding_is_close_to_full_decoding() -> None:
    generator = np.random.default_rng(1)
    smooth = Image.fromarray(generator.integers(0, 256, (40, 60, 3), np.uint8)).resize((1200, 800))
    file = saved(smooth, "JPEG", quality=95)
    full = Image.open(file).convert("RGB").crop((200, 0, 1000, 800)).resize((64, 64), Image.Resampling.BILINEAR)
    file.seek(0)
    difference = np.abs(decode(file, 64).astype(int) - np.asarray(full).astype(int))
    assert difference.mean() < 2
    assert difference.max() < 24


def test_a_very_long_image(tmp_path: Path) -> None:
    Image.new("RGB", (60_000, 1), (5, 6, 7)).save(tmp_path / "long.png")
    everywhere(decode(tmp_path / "long.png", 64), (5, 6, 7))


def test_broken_files_are_named(tmp_path: Path) -> None:
    good = saved(Image.effect_noise((64, 64), 50), "JPEG").getvalue()
    (tmp_path / "half.jpg").write_bytes(good[: len(good) // 2])
    (tmp_path / "text.png").write_text("not an image")
    (tmp_path / "empty.png").write_bytes(b"")
    for name, reason in (("half.jpg", "truncated"), ("text.png", "not an image"), ("empty.png", "not an image")):
        with pytest.raises(WhorlError, match=rf"{name}: cannot be read as an image \(.*{reason}"):
            decode(tmp_path / name, 8)
    with pytest.raises(WhorlError, match=r"nowhere\.png: cannot be read as an image \(no such file"):
        decode(tmp_path / "nowhere.png", 8)
    with pytest.raises(WhorlError, match=r"^row 7: "):
        decode(BytesIO(b"no"), 8, name="row 7")


def test_bombs_and_the_warning_below_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    everywhere(decode(saved(Image.new("L", (15, 10), 3)), 4), (3, 3, 3))  # Pillow only warns about this one
    with pytest.raises(WhorlError, match="too many pixels"):
        decode(saved(Image.new("L", (100, 100))), 4)


def test_threads_leave_the_warning_filters_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    data = saved(Image.new("L", (15, 10), 3)).getvalue()
    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: decode(BytesIO(data), 4), range(200)))
    assert len(results) == 200
    assert list(warnings.filters) == before
