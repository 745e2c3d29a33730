// The position in a list, such as "26–50 of 1,000,000", and the buttons back and forth. Only the shown page is read.

import { h, icon, number } from "./dom.js";

export function pager(go) {
  const text = h("span.pages-text");
  const back = h("button.quiet.icon-only", { type: "button", "aria-label": "Previous page" }, icon("back"));
  const forth = h("button.quiet.icon-only", { type: "button", "aria-label": "Next page" }, icon("chevron"));
  const input = h("input.goto", { type: "number", min: 1, "aria-label": "Go to number" });
  const jump = h("label.jump", {}, "Go to", input);
  const element = h("nav.pages", { "aria-label": "Pages", hidden: true }, jump, text, back, forth);
  let place = { offset: 0, shown: 0, total: 0, size: 25 };
  back.addEventListener("click", () => go(Math.max(0, place.offset - place.size)));
  forth.addEventListener("click", () => go(place.offset + place.shown));
  input.addEventListener("change", () => {
    const wanted = Math.min(Math.max(1, Math.floor(Number(input.value) || 1)), Math.max(1, place.total));
    input.value = "";
    go(wanted - 1);
  });

  function show(offset, shown, total, size) {
    place = { offset, shown, total, size };
    element.hidden = total <= shown && offset === 0;
    jump.hidden = total <= 10 * size;
    text.textContent = shown ? `${number(offset + 1)}–${number(offset + shown)} of ${number(total)}` : `of ${number(total)}`;
    back.disabled = offset === 0;
    forth.disabled = shown === 0 || offset + shown >= total;
  }

  const count = (total) => show(place.offset, place.shown, Math.max(total, place.offset + place.shown), place.size);
  return { element, show, count, back: () => back.click(), forth: () => forth.click() };
}
