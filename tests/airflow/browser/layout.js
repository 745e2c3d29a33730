// What is wrong with the layout of the page, as sentences. Arguments: the least height of what is touched (0: any), the
// least width of the search box, and the most lines of a heading, in pixels.
const [finger, search, lines] = arguments;
const root = document.documentElement;
const wrong = [];
const named = (e) => `${e.tagName.toLowerCase()}.${e.className} "${(e.textContent ?? "").trim().slice(0, 30)}"`;
const box = (e) => e.getBoundingClientRect();
const seen = (e) => e.getClientRects().length && getComputedStyle(e).visibility === "visible";
const shortened = (e) => { // on purpose, with an ellipsis: by so much of it as is drawn
  for (let each = e; each; each = each.parentElement) {
    const style = getComputedStyle(each);
    if (style.textOverflow === "ellipsis" || style.webkitLineClamp !== "none") return box(each);
  }
  return null;
};
const scope = document.querySelector("dialog[open]") ?? document.body;
const all = [...scope.querySelectorAll("*")].filter((e) => !e.closest("svg, #toasts, noscript") && seen(e));

if (root.scrollWidth > root.clientWidth) wrong.push(`the page scrolls sideways: ${root.scrollWidth} in ${root.clientWidth}`);
for (const e of all) {
  const { left, right, width } = box(e);
  if (width && !shortened(e) && (left < -1 || right > root.clientWidth + 1)) wrong.push(`outside: ${named(e)} ${left} to ${right}`);
  if (e.matches(".scroll, .tabs, dialog") && e.scrollWidth > e.clientWidth + 1) wrong.push(`scrolls sideways: ${named(e)}`);
}

const texts = [];
const walker = document.createTreeWalker(scope, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode;
  const of = node.parentElement;
  if (!node.data.trim() || of.closest("svg, #toasts, noscript, option, select") || !seen(of)) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  const clip = shortened(of);
  for (const { left, top, right, bottom } of range.getClientRects()) {
    const most = clip ?? { right, bottom };
    const drawn = { left, top, right: Math.min(right, most.right), bottom: Math.min(bottom, most.bottom) };
    if (drawn.right - drawn.left > 1 && drawn.bottom - drawn.top > 1) texts.push([node, drawn]);
  }
}
const notice = (node) => node.parentElement.closest("#notices"); // lies over the page, which can be scrolled
texts.forEach(([one, a], at) => {
  for (const [other, b] of texts.slice(at + 1)) {
    if (one === other || notice(one) !== notice(other)) continue;
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 2 && high > 6) wrong.push(`overlaps: "${one.data.slice(0, 30)}" and "${other.data.slice(0, 30)}"`);
  }
});

const heading = document.querySelector("main h1");
if (heading && seen(heading)) {
  const many = Math.round(box(heading).height / parseFloat(getComputedStyle(heading).lineHeight));
  if (many > lines) wrong.push(`the heading has ${many} lines`);
}
const input = document.querySelector("input.search");
if (input && seen(input) && box(input).width < search) wrong.push(`the search box is ${box(input).width} wide`);
for (const e of all.filter((each) => each.matches("button, select, input:not([type=checkbox]), a.tab, .crumbs a"))) {
  if (finger && box(e).height < finger) wrong.push(`too low for a finger: ${named(e)} ${box(e).height}`);
}
for (const e of all.filter((each) => each.matches(".marks label"))) {
  if (box(e).height < 24 || box(e).width < 24) wrong.push(`too small to hit: ${named(e)}`);
}
return [...new Set(wrong)];
