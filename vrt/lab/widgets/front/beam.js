// The beam explorer: the whole search as a picture, one iteration of it as a table.

const STEP = 34, LEFT = 44, TOP = 24;

function render({ model, el }) {
  const node = root(el, "beam-explorer", "Beam explorer");
  let search, playing = null;
  const title = h("strong");
  const choose = h("select", { "aria-label": "Utterance", onchange: () => set("utterance", Number(choose.value)) });
  const slider = h("input", { type: "range", min: 0, step: 1, "aria-label": "Iteration", oninput: () => set("iteration", Number(slider.value)) });
  const place = h("output", { class: "vrt-value" });
  const says = h("p", { class: "vrt-says", "aria-live": "polite" });
  const picture = h("div", { class: "vrt-picture", tabindex: 0, role: "img", "aria-label": "All iterations of the search; arrow keys step" });
  const rows = h("div", { class: "vrt-rows", tabindex: 0, "aria-label": "Slots after this iteration" });
  const run = h("button", { type: "button", class: "vrt-icon", "aria-label": "Run through", title: "Run through", onclick: toggle }, "▶");
  const move = (by, label, sign) => h("button", { type: "button", class: "vrt-icon", "aria-label": label, title: label, onclick: () => set("iteration", at() + by) }, sign);
  node.append(
    h("header", {}, title, h("span", { class: "vrt-soft" }, "beam search, iteration by iteration")),
    h("div", { class: "vrt-controls" }, choose, move(-1, "One iteration back", "‹"), run, move(1, "One iteration on", "›"),
      h("div", { class: "vrt-step" }, slider, place)),
    says, legend(), picture, rows,
    h("p", { class: "vrt-keys" }, h("kbd", {}, "←"), " ", h("kbd", {}, "→"), " step, ", h("kbd", {}, "PgUp"), " ", h("kbd", {}, "PgDn"), " by ten, ",
      h("kbd", {}, "Home"), " ", h("kbd", {}, "End"), " to the ends, ", h("kbd", {}, "Space"), " runs through"),
  );

  const at = () => model.get("iteration");
  const last = () => search.steps.length - 1;

  function set(key, value) {
    if (key === "iteration") value = Math.min(Math.max(0, value), last());
    model.set(key, value);
    model.save_changes();
  }

  function toggle() {
    if (playing) return halt();
    if (at() === last()) set("iteration", 0);
    run.textContent = "❚❚";
    playing = setInterval(() => (at() === last() ? halt() : set("iteration", at() + 1)), 600);
  }

  function halt() {
    clearInterval(playing);
    playing = null;
    run.textContent = "▶";
  }

  const KEYS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9 };
  node.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target === choose) return;
    if (event.key in KEYS) {
      event.preventDefault();
      halt();
      set("iteration", at() + KEYS[event.key]);
    } else if (event.key === " " && event.target.tagName !== "BUTTON") {
      event.preventDefault();
      toggle();
    }
  });

  function legend() {
    const item = (shape, text) => h("span", {}, s("svg", { width: 18, height: 18, viewBox: "-9 -9 18 18" }, shape), text);
    return h("div", { class: "vrt-legend" },
      item(s("circle", { r: 6, class: "vrt-label" }), "label"), item(s("circle", { r: 5.5, class: "vrt-blank" }), "blank: next frame"),
      item(s("rect", { x: -5, y: -5, width: 10, height: 10, class: "vrt-final" }), "final, carried over"),
      item(s("circle", { r: 7.5, class: "vrt-merged" }), "keeps the sum of a merge"), item(s("path", { d: "M-5-5L5 5M5-5L-5 5", class: "vrt-dead" }), "merged into that"),
      item(s("path", { d: "M-8 0H8", class: "vrt-edge vrt-best", "stroke-width": 3 }), "the best at the end"));
  }

  function draw() {
    const searches = model.get("searches");
    search = searches[model.get("utterance")];
    title.textContent = model.get("name");
    choose.replaceChildren(...searches.map((_, i) => h("option", { value: i, selected: i === model.get("utterance") }, `Utterance ${i}`)));
    choose.hidden = searches.length < 2;
    slider.max = last();
    drawPicture();
    show();
  }

  function drawPicture() {
    const size = search.slots, row = size > 24 ? 14 : size > 12 ? 20 : 28;
    const x = (i) => LEFT + STEP * (i + 0.5), y = (slot) => TOP + row * (slot + 0.5);
    const width = LEFT + STEP * search.steps.length + 12, height = TOP + row * size + 8;
    const reach = Math.min(9, row / 2 - 2);
    const edges = [], best = [], nodes = [], columns = [];
    search.steps.forEach((slots, i) => {
      const top = Math.max(...slots.map((slot) => slot.score));
      slots.forEach((slot) => {
        const share = Math.exp(slot.score - top);
        if (i > 0) {
          const [a, b] = [y(slot.parent), y(slot.slot)];
          const d = `M${x(i - 1)} ${a}C${x(i - 0.5)} ${a} ${x(i - 0.5)} ${b} ${x(i)} ${b}`;
          if (slot.best) best.push(s("path", { class: "vrt-edge vrt-best", "stroke-width": 3, d }));
          else edges.push(s("path", { class: "vrt-edge", "stroke-width": 0.8 + 1.6 * share, d }));
        }
        nodes.push(mark(slot, x(i), y(slot.slot), reach * (0.5 + 0.5 * Math.sqrt(share))));
      });
      columns.push(s("g", { class: "vrt-column", onclick: () => (halt(), set("iteration", i)) },
        s("rect", { x: x(i) - STEP / 2, y: 0, width: STEP, height, fill: "transparent" }), s("title", {}, `Iteration ${i}`)));
    });
    const ticks = Array.from({ length: size }, (_, k) => (row < 20 && k % 4 ? null
      : s("text", { class: "vrt-tick", x: LEFT - 12, y: y(k) + 4, "text-anchor": "end" }, `${k}`)));
    picture.replaceChildren(s("svg", { width, height },
      s("rect", { class: "vrt-now", y: 0, width: STEP, height, rx: 4 }), ticks,
      search.steps.map((_, i) => s("text", { class: "vrt-tick", x: x(i), y: 15, "text-anchor": "middle" }, `${i}`)),
      edges, best, nodes, columns));
  }

  function mark(slot, cx, cy, r) {
    if (slot.merged) return s("path", { class: "vrt-dead", d: `M${cx - 4} ${cy - 4}l8 8m0 -8l-8 8` });
    const shape = slot.kind === "final"
      ? s("rect", { class: "vrt-final", x: cx - r, y: cy - r, width: 2 * r, height: 2 * r })
      : s("circle", { class: slot.kind === "blank" ? "vrt-blank" : "vrt-label", cx, cy, r });
    return slot.sums ? s("g", {}, shape, s("circle", { class: "vrt-merged", cx, cy, r: r + 3 })) : shape;
  }

  function show() {
    const i = Math.min(at(), last());
    slider.value = i;
    slider.setAttribute("aria-valuetext", `iteration ${i} of ${last()}`);
    place.textContent = `${i} of ${last()}`;
    says.textContent = search.sentences[i];
    const now = picture.querySelector(".vrt-now");
    now.setAttribute("x", LEFT + STEP * i);
    const middle = LEFT + STEP * (i + 0.5);
    if (middle < picture.scrollLeft + 60 || middle > picture.scrollLeft + picture.clientWidth - 60) picture.scrollLeft = middle - picture.clientWidth / 2;
    const head = ["slot", "from", "took", "labels so far", "before the merge", "score", "frame", ""];
    const numbers = [4, 5];
    const held = new Map(search.steps[i].map((slot) => [slot.slot, slot]));
    rows.replaceChildren(h("table", {},
      h("thead", {}, h("tr", {}, head.map((text, c) => h("th", { class: numbers.includes(c) ? "vrt-number" : null }, text)))),
      h("tbody", {}, Array.from({ length: search.slots }, (_, k) => row(k, held.get(k))))));
  }

  function row(number, slot) {
    if (!slot) return h("tr", { class: "vrt-gone" }, h("td", {}, `${number}`), h("td", { colspan: 7 }, "dead"));
    return h("tr", { class: slot.merged ? "vrt-gone" : slot.best ? "vrt-leads" : null },
      h("td", {}, `${number}`), h("td", {}, slot.parent < 0 ? "–" : `${slot.parent}`), h("td", {}, slot.took),
      h("td", { class: "vrt-said", title: slot.said }, slot.said.length > 56 ? `…${slot.said.slice(-55)}` : slot.said),
      h("td", { class: "vrt-value" }, shown(slot.score_pruned, 4)), h("td", { class: "vrt-value" }, slot.merged ? "–" : shown(slot.score, 4)),
      h("td", {}, `${slot.frame}`), h("td", {}, slot.fate));
  }

  model.on("change:iteration", show);
  model.on("change:utterance", () => (halt(), draw(), set("iteration", at())));
  model.on("change:searches", draw);
  draw();
  return () => (halt(), model.off("change:iteration", show));
}

export default { render };
