// The ring explorer: slots of a real ring after each chunk; the kernel feeds it anew when a size changes.

function render({ model, el }) {
  const node = root(el, "ring", "Ring explorer");
  const largest = model.get("largest");
  const sizes = Object.entries({ window: "Window", chunk: "Chunk", capacity: "Capacity" }).map(([key, label]) => {
    const value = h("output", { class: "vrt-value" });
    const input = h("input", { type: "range", min: 1, max: Math.max(largest[key], model.get(key)), step: 1, "aria-label": `${label}, frames` });
    const show = () => {
      input.value = model.get(key);
      value.textContent = model.get(key);
      input.setAttribute("aria-valuetext", `${model.get(key)} frames`);
    };
    input.addEventListener("input", () => (model.set(key, Number(input.value)), model.save_changes()));
    model.on(`change:${key}`, show);
    show();
    return h("label", { class: "vrt-slider" }, h("span", {}, label), input, value);
  });
  const message = h("p", { class: "vrt-message vrt-error", role: "alert", hidden: true });
  const slider = h("input", { type: "range", min: 0, step: 1, "aria-label": "Chunk number", oninput: () => set(Number(slider.value)) });
  const place = h("output", { class: "vrt-value" });
  const says = h("p", { class: "vrt-says", "aria-live": "polite" });
  const slots = h("div", { class: "vrt-slots", role: "img" });
  const move = (by, label, sign) => h("button", { type: "button", class: "vrt-icon", "aria-label": label, title: label, onclick: () => set(model.get("step") + by) }, sign);
  const key = (state, example, text) => h("span", { style: "display:inline-flex;align-items:center;gap:6px" },
    h("span", { class: "vrt-slot", "data-state": state, style: "width:26px;height:22px;line-height:20px;display:inline-block" }, example), text);
  node.append(
    h("header", {}, h("strong", {}, "KVRing"), h("span", { class: "vrt-soft" }, "slot by slot")),
    h("div", { class: "vrt-sizes" }, sizes), message,
    h("div", { class: "vrt-controls" }, move(-1, "One chunk back", "‹"), move(1, "One chunk on", "›"), h("div", { class: "vrt-step" }, slider, place)),
    says, slots,
    h("div", { class: "vrt-legend" }, key("new", "8", "this chunk"), key("past", "7", "earlier frame that it sees"), key("before", "", "zeros: before the stream"),
      key("stale", "2", "no query sees it again"), key("free", "", "never written"), h("span", {}, h("span", { style: "color:var(--mark)" }, "▲"), " next write")),
    h("p", { class: "vrt-keys" }, h("kbd", {}, "←"), " ", h("kbd", {}, "→"), " step by a chunk, ", h("kbd", {}, "Home"), " ", h("kbd", {}, "End"), " to the ends"),
  );

  function set(step) {
    model.set("step", Math.min(Math.max(0, step), model.get("steps").length - 1));
    model.save_changes();
  }

  const KEYS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9 };
  node.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || !(event.key in KEYS)) return;
    if (event.target.type === "range" && event.target !== slider) return;
    event.preventDefault();
    set(model.get("step") + KEYS[event.key]);
  });

  function draw() {
    const steps = model.get("steps"), step = steps[Math.min(model.get("step"), steps.length - 1)];
    message.hidden = !model.get("message");
    message.textContent = model.get("message");
    slider.max = steps.length - 1;
    slider.value = step.chunk;
    slider.setAttribute("aria-valuetext", `chunk ${step.chunk}, ${step.seen} frames seen`);
    place.textContent = `chunk ${step.chunk} of ${steps.length - 1}`;
    const frames = step.frames.filter((frame, i) => step.states[i] === "new");
    const seen = step.frames.filter((frame, i) => step.states[i] === "past").length;
    says.textContent =
      (step.moved ? `There was no room behind slot ${steps[step.chunk - 1].cursor - 1}: the newest frames moved to the front (compaction ${step.compactions}). ` : "") +
      `Frames ${frames[0]} to ${frames[frames.length - 1]} were written before slot ${step.cursor}; between them they see ${seen} earlier frames.`;
    slots.setAttribute("aria-label", says.textContent);
    slots.replaceChildren(...step.states.map((state, i) =>
      h("div", { class: "vrt-slot", "data-state": state, "data-next": i === step.cursor, title: `slot ${i}` }, step.frames[i] === null ? "" : `${step.frames[i]}`)));
  }

  model.on("change:steps change:step change:message", draw);
  draw();
}

export default { render };
