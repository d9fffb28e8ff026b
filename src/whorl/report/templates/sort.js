// A click on a column's head sorts the table by it: lowest first, then highest first, then in the paper's order.
const next = { none: "ascending", ascending: "descending", descending: "none" };

function sorted(rows, column, way) {
  if (way === "none") return rows;
  const sign = way === "ascending" ? 1 : -1;
  const value = (row) => {
    const cell = row.cells[column];
    if (column === 0) return cell.textContent;
    return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
  };
  return [...rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return (x === null) - (y === null); // cells without a number always come last
    return sign * (column === 0 ? x.localeCompare(y) : x - y);
  });
}

for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], rows = [...body.rows];
  const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const way = next[head.getAttribute("aria-sort")];
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", way);
      body.append(...sorted(rows, column, way));
    });
  });
}

// The target of a link may be inside a closed <details>.
function unfold(hash) {
  const target = document.getElementById(decodeURIComponent(hash.slice(1)));
  const fold = target && target.closest("details");
  if (fold && !fold.open) {
    fold.open = true;
    target.scrollIntoView();
  }
}
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (link) unfold(link.getAttribute("href"));
});
addEventListener("hashchange", () => unfold(location.hash));
unfold(location.hash);
