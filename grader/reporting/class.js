"use strict";
(() => {
  const order = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" }).compare;
  const value = (row, at) => row.cells[at].dataset.v ?? row.cells[at].textContent.trim();
  for (const table of document.querySelectorAll("table.sort")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, at) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        heads.forEach((one) => one.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
        const rows = [...table.tBodies[0].rows];
        rows.sort((one, other) => sign * order(value(one, at), value(other, at)));
        table.tBodies[0].append(...rows);
      });
    });
  }
  const tools = document.querySelector("#tools"), find = document.querySelector("#find"), only = document.querySelector("#only");
  const show = () => {
    const words = find.value.toLocaleLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0, all = 0;
    for (const row of document.querySelectorAll("table.find > tbody > tr")) {
      const text = row.textContent.toLocaleLowerCase(), tags = row.dataset.tags;
      const tagged = !only.value || tags === undefined || tags.split(" ").includes(only.value);
      row.hidden = !(tagged && words.every((word) => text.includes(word)));
      if (tags !== undefined) {
        all += 1;
        shown += !row.hidden;
      }
    }
    document.querySelector("#shown").textContent = `${shown} of ${all}`;
  };
  find.addEventListener("input", show);
  only.addEventListener("change", show);
  tools.hidden = false;
  show();
})();
