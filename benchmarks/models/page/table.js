// Tables that a heading sorts; what is not known stays at the end.

function sortBy(table, index, isAscending) {
  const heading = table.tHead.rows[0].cells[index];
  const isText = heading.dataset.kind === "text";
  const valueOf = (row) => row.cells[index].dataset.value;
  const compare = (one, other) => {
    const [a, b] = [valueOf(one), valueOf(other)];
    if (a === "" || b === "") return (a === "") - (b === "");
    const order = isText ? a.localeCompare(b) : Number(a) - Number(b);
    return isAscending ? order : -order;
  };
  table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
  for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", isAscending ? "ascending" : "descending");
}

for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  const choose = (index) => {
    const isText = headings[index].dataset.kind === "text";
    const before = headings[index].getAttribute("aria-sort");
    sortBy(table, index, before ? before === "descending" : isText);
  };
  headings.forEach((heading, index) => heading.querySelector("button").addEventListener("click", () => choose(index)));
  // A phone shows rows as cards, without headings.
  const label = make("label", "sort", "Sort by ");
  const select = make("select");
  headings.forEach((heading, index) => select.append(new Option(heading.textContent, index)));
  select.value = "1";
  select.addEventListener("change", () => choose(Number(select.value)));
  label.append(select);
  table.parentElement.before(label);
}

// ---- Pairs: the numbers behind a cell, where there is no pointer to hover ------------------------------------

for (const table of document.querySelectorAll("table.pairs")) {
  const details = table.parentElement.nextElementSibling;
  table.addEventListener("click", (event) => {
    const button = event.target.closest("button.pair");
    if (!button) return;
    for (const other of table.querySelectorAll("[aria-pressed]")) other.removeAttribute("aria-pressed");
    button.setAttribute("aria-pressed", "true");
    const { row, column, world } = button.dataset;
    const link = make("a", "", "Show the levels that only " + row + " solved");
    link.href = "#" + new URLSearchParams({ label: row + " · " + world, filter: "gained", beside: column });
    details.replaceChildren(button.dataset.details + " ", link);
  });
}

