// Ledgers: filter rows by words and verdict, sort by a click on a heading, open the fold of a row
// that a link names. Without scripts the tables are whole, in their folds.
(() => {
  const form = document.querySelector("form.ledger-filter");
  const tables = [...document.querySelectorAll("table.ledger")];
  const rows = tables.flatMap((table) => [...table.tBodies[0].rows]);
  const folds = [...new Set(tables.map((table) => table.closest("details")))].filter(Boolean);

  const filter = () => {
    const words = form.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const verdict = form.verdict.value;
    let left = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const badge = row.querySelector(".verdict");
      row.hidden = !words.every((word) => text.includes(word)) ||
        (verdict !== "" && badge?.textContent !== verdict);
      left += !row.hidden;
    }
    const asked = words.length > 0 || verdict !== "";
    for (const fold of folds) {
      fold.open = asked && fold.querySelector("tbody tr:not([hidden])") !== null;
    }
    form.querySelector("output").textContent = `${left} of ${rows.length}`;
  };

  const sort = (table, column, heading) => {
    const down = heading.getAttribute("aria-sort") === "ascending";
    const text = (row) => row.cells[column].textContent.trim();
    const sorted = [...table.tBodies[0].rows].sort(
      (a, b) => text(a).localeCompare(text(b), "en", { numeric: true }) * (down ? -1 : 1),
    );
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    table.tBodies[0].append(...sorted);
  };

  for (const table of tables) {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      button.addEventListener("click", () => sort(table, column, heading));
      heading.append(button);
    });
  }

  const show = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const fold = target && target.closest("details");
    if (fold && !fold.open) {
      fold.open = true;
      target.scrollIntoView();
    }
  };
  window.addEventListener("hashchange", show);
  show();

  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  filter();
  show();
})();
