// Draws the strips of calls and, of the call that the address names, what was found.
"use strict";

const calls = JSON.parse(document.getElementById("calls").textContent);
const total = calls.verdict.length;
const WORDS = { p: "passed", n: "noted", f: "failed", s: "not judged" };
const RANKS = "fnps";
// Widths and heights: a strip takes the first with which all of its calls are seen, or the last.
const CELLS = [[9, 30], [6, 20], [4, 12]];
const FIRST = 20;
const MORE = 100;
const card = document.getElementById("call");

const name = (at) => `${calls.texts[calls.api[at]]}.${calls.texts[calls.call[at]]}`;
const isOff = (at) => calls.off[at] === "1";
const share = (at) => calls.texts[calls.share[at]];
const heading = (side) => (calls.sides.length > 1 ? side : "error");

function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.filter((child) => child !== ""));
  return made;
}

const cells = (tag, row) => element("tr", {}, ...row.map((cell) => element(tag, {}, ...[cell].flat())));
function table(className, head, rows) {
  const made = element("table", { className }, element("tbody", {}, cells("th", head), ...rows.map((row) => cells("td", row))));
  made.style.setProperty("--columns", head.length - 1);
  return made;
}

const faint = (text) => element("span", { className: "faint" }, text);
const times = (text) => element("span", { className: "times faint" }, text && `${text} ×`);
const word = (verdict) => element("span", { className: `word ${verdict}` }, WORDS[verdict]);

class Strip {
  constructor(section) {
    this.start = Number(section.dataset.start);
    this.count = Number(section.dataset.count);
    this.place = section.dataset.place;
    this.box = section.querySelector(".cells");
    this.canvas = section.querySelector("canvas");
    this.pointed = section.querySelector(".pointed");
    this.selected = null;
    this.box.addEventListener("scroll", () => this.draw());
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("click", (event) => this.open(this.under(event)));
    this.canvas.addEventListener("mousemove", (event) => this.point(this.under(event)));
    this.canvas.addEventListener("mouseleave", () => this.point(this.selected));
    new ResizeObserver(() => this.measure()).observe(this.box);
  }

  has(at) {
    return at !== null && at >= this.start && at < this.start + this.count;
  }

  measure() {
    const most = parseFloat(getComputedStyle(this.box).maxHeight);
    for ([this.width, this.height] of CELLS) {
      this.columns = Math.max(1, Math.floor(this.box.clientWidth / this.width));
      this.whole = Math.ceil(this.count / this.columns) * this.height;
      if (this.whole <= most) break;
    }
    // The canvas covers what is seen; its margin stands for the rest.
    this.seen = Math.min(this.whole, most - (most % this.height));
    this.box.style.height = this.canvas.style.height = `${this.seen}px`;
    this.canvas.style.marginBottom = `${this.whole - this.seen}px`;
    if (this.selected !== null) this.reveal();
    this.draw();
  }

  draw() {
    const { width, height, canvas } = this;
    this.box.classList.toggle("more", this.box.scrollTop + this.seen < this.whole - 1);
    const style = getComputedStyle(this.box);
    const colour = (each) => style.getPropertyValue(`--${each}`);
    const colours = { p: colour("passed"), n: colour("noted"), f: colour("failed"), s: colour("skipped") };
    const scale = devicePixelRatio;
    canvas.width = this.box.clientWidth * scale;
    canvas.height = this.seen * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.translate(0, -this.box.scrollTop);
    const first = Math.floor(this.box.scrollTop / height) * this.columns;
    const last = Math.min(this.count, first + (Math.ceil(this.seen / height) + 1) * this.columns);
    const gap = width > 4 ? 2 : 1, tall = height - (height > 12 ? 6 : 3), wide = width - gap;
    for (let each = first; each < last; each++) {
      const at = this.start + each, verdict = calls.verdict[at];
      const x = (each % this.columns) * width, bottom = Math.floor(each / this.columns) * height + height - 3;
      const up = Math.round(tall * { p: 0.4, n: 0.65, f: 1, s: 0.3 }[verdict]);
      const isHollow = verdict === "s" || (verdict === "f" && isOff(at));
      pen.fillStyle = pen.strokeStyle = colours[verdict];
      pen.lineWidth = wide > 4 ? 1.5 : 1;
      if (isHollow) pen.strokeRect(x + pen.lineWidth / 2, bottom - up + pen.lineWidth / 2, wide - pen.lineWidth, up - pen.lineWidth);
      else pen.fillRect(x, bottom - up, wide, up);
      if (at === this.selected) {
        pen.fillStyle = style.color;
        pen.fillRect(x - 1, bottom + 1, wide + 2, 2);
      }
    }
  }

  under(event) {
    const column = Math.floor(event.offsetX / this.width);
    const row = Math.floor((event.offsetY + this.box.scrollTop) / this.height);
    const each = row * this.columns + column;
    return column < this.columns && each < this.count ? this.start + each : null;
  }

  open(at) {
    if (at !== null) go(at);
  }

  point(at) {
    this.pointed.textContent = at === null ? "" : `${at - this.start + 1}: ${name(at)}, ${WORDS[calls.verdict[at]]}`;
  }

  select(at) {
    this.selected = this.has(at) ? at : null;
    this.box.ariaValueNow = (this.selected ?? this.start) - this.start + 1;
    this.box.ariaValueText = this.selected === null ? "no call selected" : `${name(at)}, ${WORDS[calls.verdict[at]]}`;
    this.point(this.selected);
    if (!this.width) return;
    this.reveal();
    this.draw();
  }

  reveal() {
    if (this.selected === null) return;
    const top = Math.floor((this.selected - this.start) / this.columns) * this.height;
    if (top < this.box.scrollTop || top + this.height > this.box.scrollTop + this.seen)
      this.box.scrollTop = top - this.seen / 2;
  }

  key(event) {
    const end = this.start + this.count - 1, from = this.selected ?? this.start;
    const to = {
      ArrowLeft: from - 1, ArrowRight: from + 1, ArrowUp: from - this.columns, ArrowDown: from + this.columns,
      PageUp: nextWrong(from, -1), PageDown: nextWrong(from, 1), Home: this.start, End: end,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    if (this.has(to)) go(to, true);
  }
}

function nextWrong(from, step) {
  let at = from + step;
  while (at >= 0 && at < total && calls.verdict[at] !== "f") at += step;
  return at >= 0 && at < total ? at : null;
}

const strips = [...document.querySelectorAll(".strip")].map((section) => new Strip(section));
const stripOf = (at) => strips.find((strip) => strip.has(at));

// Keys pass many calls, which the browser's history need not have.
function go(at, isKey = false) {
  const address = `#call-${at + 1}`;
  if (!isKey && location.hash !== address) location.hash = address;
  else {
    history.replaceState(null, "", address);
    show(at);
  }
}

function named() {
  const number = Number(/^#call-(\d+)$/.exec(location.hash)?.[1]);
  return number >= 1 && number <= total ? number - 1 : null;
}

function show(at) {
  for (const strip of strips) strip.select(at);
  card.hidden = at === null;
  if (at !== null) card.replaceChildren(...described(at));
}

function described(at) {
  const own = stripOf(at);
  const step = (label, to) => element("button", { disabled: to === null, onclick: () => go(to) }, label);
  const before = nextWrong(at, -1), after = nextWrong(at, 1);
  const title = element("div", { className: "title" },
    element("h3", {}, at === calls.first ? "First wrong call: " : "", element("span", { className: "name" }, name(at))),
    word(calls.verdict[at]),
    isOff(at) ? element("span", { className: "tag" }, "its inputs are already off") : "",
    faint(`call ${(at - own.start + 1).toLocaleString("en")} of ${own.count.toLocaleString("en")}${own.place && `, ${own.place}`}`),
    before !== null || after !== null ? element("nav", {}, step("previous wrong", before), step("next wrong", after)) : "");
  const detail = calls.details[at];
  if (!detail) {
    const rest = share(at) ? `Its largest error is ${share(at)} times the limit. ` : "";
    return [title, element("p", { className: "said" }, `${rest}This page has no room for more of it: rows.jsonl has all.`)];
  }
  const [message, count, tensors] = detail;
  const parts = [title];
  if (calls.texts[message]) parts.push(element("p", { className: "said" }, calls.texts[message]));
  if (tensors.length) parts.push(table("results", ["result", ...calls.sides.map(heading), "PyTorch", "limit"], tensors.map(row)));
  if (count > tensors.length) parts.push(element("p", { className: "faint" }, `and ${count - tensors.length} further results, which are closer`));
  const figures = tensors.flatMap((tensor) => Object.entries(tensor[4]).filter(([, side]) => side[6]).map(([side, found]) => figure(tensor, side, found)));
  if (figures.length) parts.push(element("div", { className: "found" }, ...figures));
  return parts;
}

// The columns after the first: each side with its error's share of the limit, PyTorch in the same dtype, the limit.
function columns(pytorch, sides) {
  const told = calls.sides.map((name) => sides[name]);
  const limit = told.reduce((worst, side) => (side && (!worst || side[0] === "f") ? side : worst), undefined);
  const errors = told.map((side) => (side ? [element("span", { className: side[0] }, side[1]), " ", times(side[3])] : ""));
  return [...errors, pytorch, limit ? limit[2] : ""];
}

function row([tensor, type, , pytorch, sides]) {
  const messages = [...new Set(Object.values(sides).map((side) => calls.texts[side[4]]).filter(Boolean))];
  return [[calls.texts[tensor], " ", faint(calls.texts[type]), ...messages.map((each) => element("div", {}, each))], ...columns(pytorch, sides)];
}

function figure([tensor, , extents], name, [, , , , , outside, worst, picture]) {
  const side = calls.sides.length > 1 ? `${name}: ` : "";
  const caption = element("figcaption", {}, element("h4", {}, `${side}${calls.texts[tensor]}`,
    outside ? faint(`, ${outside} of ${(extents[0] * extents[1]).toLocaleString("en")} elements outside the limit`) : ""));
  const elements = worst.length ? table("elements", ["index", "computed", "expected", "ratio"], worst) : "";
  return element("figure", {}, caption, picture.length ? drawn(picture, extents) : "", elements);
}

// A square for each part of the tensor: its size says how large the error is, its colour whether that is allowed.
function drawn(picture, [down, across]) {
  const SIDE = 10, made = (tag, attributes) => {
    const shape = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) shape.setAttribute(key, value);
    return shape;
  };
  const outside = picture.join("").replace(/[0-4]/g, "").length;
  const svg = made("svg", {
    viewBox: `0 0 ${picture[0].length * SIDE} ${picture.length * SIDE}`, role: "img",
    width: picture[0].length * Math.min(20, 240 / Math.max(picture.length, picture[0].length)),
    "aria-label": `The error over the tensor: ${outside} of ${picture.join("").length} parts are outside the limit`,
  });
  picture.forEach((line, y) => [...line].forEach((digit, x) => {
    const size = digit === "0" ? 1 : digit < "5" ? 1 + Number(digit) : Number(digit) + 0.5;
    const middle = (SIDE - size) / 2;
    svg.append(made("rect", { class: digit < "5" ? "in" : "out", x: x * SIDE + middle, y: y * SIDE + middle, width: size, height: size }));
  }));
  const meaning = "Red: outside the limit. Larger: further off.";
  return element("div", { className: "picture" }, svg,
    element("p", {}, element("span", {}, `\u2192 last axis, ${across.toLocaleString("en")}`), element("span", {}, `\u2193 others, ${down.toLocaleString("en")}`)), element("p", {}, meaning));
}

// The calls of an API: those that failed first, each group in the order of execution.
function unfold(details) {
  const body = details.querySelector(".body");
  if (body.childElementCount) return;
  const own = [];
  for (let at = 0; at < total; at++) if (calls.texts[calls.api[at]] === details.dataset.api) own.push(at);
  own.sort((a, b) => RANKS.indexOf(calls.verdict[a]) - RANKS.indexOf(calls.verdict[b]) || a - b);
  const made = table("results", ["call", ...calls.sides.map(heading), "PyTorch", "limit"], own.splice(0, FIRST).map(line));
  const more = element("button", { onclick: () => label(own.splice(0, MORE)) });
  const label = (next) => {
    made.tBodies[0].append(...next.map((at) => cells("td", line(at))));
    more.textContent = own.length > MORE ? `Show ${MORE} more of ${own.length.toLocaleString("en")}` : `Show the other ${own.length}`;
    more.hidden = !own.length;
  };
  label([]);
  body.append(made, more);
}

function line(at) {
  const tensor = calls.details[at]?.[2][0];
  const said = [element("a", { className: "name", href: `#call-${at + 1}` }, calls.texts[calls.call[at]]), " ", word(calls.verdict[at])];
  if (strips.length > 1) said.push(" ", faint(stripOf(at).place));
  if (isOff(at)) said.push(" ", element("span", { className: "tag" }, "inputs already off"));
  if (tensor) return [[...said, " ", faint(calls.texts[tensor[0]])], ...columns(tensor[3], tensor[4])];
  return [said, times(share(at)), ...calls.sides.slice(1).map(() => ""), "", ""];
}

for (const details of document.querySelectorAll(".apis details")) details.addEventListener("toggle", () => details.open && unfold(details));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => strips.forEach((strip) => strip.draw()));
addEventListener("hashchange", () => {
  const at = named();
  if (at === null) return;
  show(at);
  if (card.getBoundingClientRect().top < 0 || card.getBoundingClientRect().top > innerHeight * 0.7) card.scrollIntoView();
});
if (total) show(named() ?? calls.first);
