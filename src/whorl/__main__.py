"""``python -m whorl``."""

from whorl.cli import main

main()
