"use strict";
for (const walk of document.querySelectorAll(".walk")) {
  const slider = walk.querySelector("input");
  if (!slider) continue;
  const show = () => {
    for (const one of walk.querySelectorAll("[data-step]")) one.toggleAttribute("hidden", one.dataset.step !== slider.value);
    walk.querySelector("output").value = slider.value;
  };
  slider.addEventListener("input", show);
  slider.closest("p").hidden = false;
  show();
}
