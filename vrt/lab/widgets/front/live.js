// The live view: what the kernel heard, and the microphone that it hears.
// The kernel's messages: hello, update, refused. Ours: hello, block, play, stop.

const WINDOW_S = 12; // of the two charts
const PIECE_S = 0.08;
const LINE_MS = 80; // a piece that takes longer than it lasts falls behind
const MS_LOW = 0.5, MS_HIGH = 2000;
const HELLOS = 10;
const PHASES = {
  idle: "Ready", listening: "Listening", finishing: "Finishing", finished: "Finished",
  failed: "Failed", "given up": "Given up", opening: "Opening",
};

function clock(seconds) {
  const whole = Math.floor(seconds / 60);
  return `${String(whole).padStart(2, "0")}:${(seconds - 60 * whole).toFixed(1).padStart(4, "0")}`;
}

// The end of a text, its last space visible.
function ending(text) {
  const short = text.length > 48 ? `…${text.slice(-47)}` : text || "(nothing yet)";
  return short.endsWith(" ") ? `${short.slice(0, -1)}␣` : short;
}

function render({ model, el }) {
  const info = model.get("info");
  const node = root(el, "live", `Live view of ${info.title}`);
  const state = {
    text: "", levels: [], levelsFrom: 0, ms: [], msFrom: 0, last: null, // of the kernel
    sent: new Map(), transport: [], // of our own blocks
    microphone: null, mine: null, sequence: 0, opening: false,
    ready: false, hellos: 0, answered: performance.now(), alive: true,
  };

  // --- what is on screen ---------------------------------------------------------------
  const status = h("span", { class: "vrt-status", role: "status" });
  const time = h("span", { class: "vrt-time" }, "00:00.0");
  const record = h("button", { class: "vrt-button vrt-record", type: "button", disabled: true, onclick: startRecording }, "Record");
  const play = info.source
    ? h("button", { class: "vrt-button vrt-play", type: "button", disabled: true, onclick: startFile }, `Play ${info.source}`)
    : null;
  const stop = h("button", { class: "vrt-button vrt-stop", type: "button", disabled: true, onclick: () => stopAll() }, "Stop");
  const slider = h("input", {
    type: "range", min: 0, max: info.setting.labels.length - 1, step: 1, value: info.setting.index,
    "aria-label": `${info.setting.name}: ${info.setting.note}`, oninput: showSetting,
  });
  const settingValue = h("output", { class: "vrt-value" });
  const message = h("p", { class: "vrt-message", role: "alert", hidden: true });
  const committed = h("span", { class: "vrt-committed" });
  const tentative = h("span", { class: "vrt-tentative" });
  const words = h("div", { class: "vrt-text", role: "log", tabindex: 0, "aria-label": "Text heard so far" },
    committed, tentative);
  const charts = h("div", { class: "vrt-charts" });
  const meters = h("div", { class: "vrt-meters" });
  const memory = h("div", { class: "vrt-memory" });
  const beam = h("div", { class: "vrt-beam" });
  const counts = h("p", { class: "vrt-counts" });
  node.append(
    h("header", {}, h("strong", {}, info.title), h("span", { class: "vrt-soft" }, info.what), status, time),
    h("div", { class: "vrt-controls" }, record, play, stop,
      h("label", { class: "vrt-slider", title: info.setting.note }, h("span", {}, info.setting.name), slider, settingValue)),
    message, words,
    h("p", { class: "vrt-key" },
      h("span", { class: "vrt-committed" }, "committed"), " never changes; ",
      ...(info.beam ? [h("span", { class: "vrt-tentative" }, "tentative"), " is how the best hypothesis goes on"] : ["each word stays as it is shown"])),
    charts, meters, h("div", { class: "vrt-below" }, memory, beam), counts,
  );
  showSetting();
  drawMeters();

  // --- the kernel ----------------------------------------------------------------------
  function send(content, buffers) {
    try {
      model.send(content, undefined, buffers);
      return true;
    } catch (error) {
      lostKernel("The kernel is gone or was restarted. Run this cell again; the microphone is free.");
      return false;
    }
  }

  function lostKernel(why) {
    freeMicrophone();
    state.ready = false;
    say(why, "error");
    setPhase("idle");
  }

  function greet() {
    if (!state.alive || state.ready || state.hellos >= 200) return;
    state.hellos += 1;
    if (!send({ kind: "hello", number: state.hellos })) return;
    if (performance.now() - state.answered > 2000)
      say("The kernel is busy with another cell. Record and Play can be pressed as soon as it answers.", "warn");
    setTimeout(greet, state.hellos < HELLOS ? 200 : 1000);
  }

  function onMessage(content) {
    state.answered = performance.now();
    if (content.kind === "hello") {
      // The first messages may be handled by the main thread, later ones by another: audio waits for that.
      if (!state.ready && (!content.main || content.number >= HELLOS)) {
        state.ready = true;
        say("");
        setPhase(state.last ? state.last.phase : "idle");
      }
    } else if (content.kind === "refused") {
      freeMicrophone();
      say(content.message, "error");
      setPhase("idle");
    } else if (content.kind === "update") take(content);
  }

  function take(update) {
    if (state.last && update.recording !== state.last.recording) Object.assign(state, { text: "", levels: [], levelsFrom: 0, ms: [], msFrom: 0 });
    state.text = state.text.slice(0, update.text_from) + update.text;
    extend("levels", "levelsFrom", update.levels_from, update.levels);
    extend("ms", "msFrom", update.ms_from, update.ms);
    state.last = update;
    if (state.mine !== null && update.recording === state.mine && state.sent.has(update.newest)) {
      state.transport.push(performance.now() - state.sent.get(update.newest) - update.held_ms);
      state.transport = state.transport.slice(-25);
      for (const key of state.sent.keys()) if (key <= update.newest) state.sent.delete(key);
    }
    if (state.microphone && update.recording > state.mine) {
      freeMicrophone();
      say("Another view of this cell has taken over; this one's microphone is free.", "warn");
    } else if (state.microphone && update.recording === state.mine && update.phase !== "listening") freeMicrophone();
    if (update.message) say(update.message, update.phase === "failed" ? "error" : "warn");
    else if (!state.opening) say("");
    setPhase(update.phase);
    show();
  }

  function extend(name, offset, from, values) {
    if (state[name].length === 0) state[offset] = from;
    state[name].length = Math.max(0, Math.min(state[name].length, from - state[offset]));
    state[name].push(...values);
    const most = name === "levels" ? (4 * 30) / PIECE_S : 30 / PIECE_S;
    const extra = Math.round(state[name].length - most);
    if (extra > 0) {
      state[name].splice(0, extra);
      state[offset] += extra;
    }
  }

  // --- recording -----------------------------------------------------------------------
  async function startRecording() {
    const number = Math.max(Date.now(), (state.last ? state.last.recording : 0) + 1);
    Object.assign(state, { opening: true, mine: number, sequence: 0, transport: [] });
    state.sent.clear();
    say("");
    setPhase("opening");
    try {
      const microphone = await openMicrophone({ onBlock, onEnd, onLost: (why) => (say(why, "error"), stopAll()) });
      if (state.mine !== number || !state.alive) return microphone.free();
      state.microphone = microphone;
      state.answered = performance.now();
      setPhase("listening");
    } catch (error) {
      say(error.message, "error");
      setPhase("idle");
    } finally {
      state.opening = false;
    }

    function onBlock(start, buffer, rate) {
      if (state.mine !== number) return;
      const k = state.sequence++;
      state.sent.set(k, performance.now());
      if (send({ kind: "block", ...address(k, start, rate) }, [buffer])) watchKernel();
    }
    function onEnd(start) {
      if (state.mine !== number || start === null) return;
      send({ kind: "block", ...address(state.sequence, start, state.rate), last: true });
    }
    function address(sequence, start, rate_hz) {
      state.rate = rate_hz || state.rate;
      return { recording: number, sequence, start, rate_hz: state.rate, setting: info.setting.values[Number(slider.value)], transport_ms: transport() };
    }
  }

  function watchKernel() {
    const silent = (performance.now() - state.answered) / 1000;
    if (silent > info.queue_s) {
      stopAll();
      say(`The kernel did not answer for ${silent.toFixed(0)} s: the microphone is free. What was said until now comes when the kernel is free.`, "error");
    } else if (silent > 2) say(`No answer from the kernel for ${silent.toFixed(0)} s: a busy cell delays the text.`, "warn");
  }

  function startFile() {
    freeMicrophone();
    Object.assign(state, { mine: null, transport: [] });
    say("");
    if (send({ kind: "play", setting: info.setting.values[Number(slider.value)] })) setPhase("opening");
  }

  function stopAll() {
    if (state.microphone) {
      const microphone = state.microphone;
      state.microphone = null;
      microphone.stop();
      setPhase("finishing");
    } else send({ kind: "stop" });
  }

  function freeMicrophone() {
    if (state.microphone) state.microphone.free();
    state.microphone = null;
  }

  // --- drawing -------------------------------------------------------------------------
  function say(text, tone = "warn") {
    message.hidden = !text;
    message.className = `vrt-message vrt-${tone}`;
    if (message.textContent !== text) message.textContent = text;
  }

  function setPhase(phase) {
    const on = phase === "listening" || phase === "finishing" || phase === "opening";
    status.textContent = state.ready || on ? PHASES[phase] : "Waiting for the kernel";
    status.dataset.phase = state.ready || on ? phase : "waiting";
    record.disabled = on || !state.ready;
    if (play) play.disabled = on || !state.ready;
    stop.disabled = phase !== "listening";
    slider.disabled = on;
  }

  function showSetting() {
    const label = info.setting.labels[Number(slider.value)];
    settingValue.textContent = label;
    slider.setAttribute("aria-valuetext", label);
  }

  function transport() {
    if (!state.transport.length) return null;
    const sorted = [...state.transport].sort((a, b) => a - b);
    return Math.max(0, sorted[Math.floor(sorted.length / 2)]);
  }

  function show() {
    const last = state.last;
    committed.textContent = state.text;
    tentative.textContent = last.tentative;
    words.scrollTop = words.scrollHeight;
    time.textContent = clock(last.heard_s);
    drawMeters();
    drawMemory();
    drawBeam();
    drawCounts();
    drawCharts(charts.clientWidth);
  }

  function drawMeters() {
    const last = state.last, latency = last && last.latency;
    const rows = [
      ["Computing, per 80 ms", latency ? milliseconds(latency.p50_ms) : "–", latency ? `p95 ${milliseconds(latency.p95_ms)}, most ${milliseconds(latency.max_ms)}` : "the model's own time", latency && latency.p95_ms > LINE_MS],
      ["Transport, there and back", milliseconds(transport()), state.mine === null ? "of the microphone only" : "browser to kernel, median", false],
      ["Waiting for the model", last ? `${last.queued_s.toFixed(2)} s` : "–", `of ${info.queue_s} s that may wait`, last && last.queued_s > info.queue_s / 2],
      ["Inside the model", last ? `${last.behind_s.toFixed(2)} s` : "–", "heard and not yet decoded", false],
    ];
    meters.replaceChildren(...rows.map(([name, value, note, alarm]) =>
      h("div", { class: alarm ? "vrt-alarm" : null }, h("div", { class: "vrt-soft" }, name), h("div", { class: "vrt-value" }, value), h("div", { class: "vrt-soft" }, note))));
  }

  function drawMemory() {
    memory.replaceChildren(...state.last.memory.map((gauge) => {
      const share = Math.round((100 * gauge.used) / gauge.size);
      return h("div", { class: "vrt-gauge" },
        h("div", { class: "vrt-gauge-head" }, h("span", {}, gauge.name), h("span", { class: "vrt-value" }, `${gauge.used} of ${gauge.size} ${gauge.unit}`)),
        h("div", { class: "vrt-bar", role: "meter", "aria-label": gauge.name, "aria-valuemin": 0, "aria-valuemax": gauge.size, "aria-valuenow": gauge.used },
          h("div", { style: `width:${share}%` })),
        h("div", { class: "vrt-soft" }, gauge.detail));
    }));
  }

  function drawBeam() {
    const lines = state.last.beam;
    if (!lines.length) return beam.replaceChildren();
    const best = Math.max(...lines.map((line) => line.score));
    const weights = lines.map((line) => Math.exp(line.score - best));
    const total = weights.reduce((a, b) => a + b, 0);
    beam.replaceChildren(h("table", {},
      h("thead", {}, h("tr", {}, h("th", {}, "Hypothesis"), h("th", { class: "vrt-number" }, "score"), h("th", {}, "share of the beam"))),
      h("tbody", {}, lines.map((line, i) => h("tr", {},
        h("td", { class: "vrt-hypothesis", title: line.text }, ending(line.text)),
        h("td", { class: "vrt-value" }, shown(line.score, 2)),
        h("td", {}, h("div", { class: "vrt-bar" }, h("div", { style: `width:${((100 * weights[i]) / total).toFixed(1)}%` }))))))));
  }

  function drawCounts() {
    const c = state.last.counts, rate = state.rate || 16000;
    const bad = [
      [c.lost_samples, `${c.lost_samples} samples lost (${((1000 * c.lost_samples) / rate).toFixed(0)} ms heard as silence, ${c.lost_blocks} whole blocks)`, "0 samples lost"],
      [c.late, `${c.late} blocks too late`, "0 late"],
      [c.refused, `${c.refused} blocks after the end`, "0 refused"],
      [c.malformed, `${c.malformed} messages malformed`, "0 malformed"],
    ];
    const neutral = c.reordered || c.twice ? `, ${c.reordered} put in order, ${c.twice} twice` : "";
    counts.replaceChildren(`${c.received} blocks received${neutral}`, ...bad.map(([n, text, none]) =>
      h("span", { class: n ? "vrt-alarm" : null }, n ? `⚠ ${text}` : none)));
  }

  // Two pictures over one time axis: how loud it was, and how long the model took for it.
  function drawCharts(width) {
    if (!width) return;
    const left = 46, right = 20, waveHeight = 58, gap = 26, msHeight = 104, bottom = 22;
    const inner = width - left - right;
    const heard = (state.msFrom + state.ms.length) * PIECE_S;
    const from = Math.max(0, heard - WINDOW_S), x = (t) => left + ((t - from) / WINDOW_S) * inner;
    const top = waveHeight + gap, height = top + msHeight + bottom;
    const y = (ms) => top + msHeight * (1 - Math.log(Math.min(MS_HIGH, Math.max(MS_LOW, ms)) / MS_LOW) / Math.log(MS_HIGH / MS_LOW));
    const middle = 14 + (waveHeight - 14) / 2;
    let wave = "";
    state.levels.forEach((level, i) => {
      const t = ((state.levelsFrom + i) * PIECE_S) / 4;
      if (t < from) return;
      const reach = Math.max(0.5, (Math.sqrt(level) * (waveHeight - 14)) / 2);
      wave += `M${x(t).toFixed(1)} ${(middle - reach).toFixed(1)}V${(middle + reach).toFixed(1)}`;
    });
    let dots = "", over = "";
    state.ms.forEach((ms, i) => {
      const t = (state.msFrom + i + 0.5) * PIECE_S;
      if (t < from) return;
      const cx = x(t), cy = y(ms);
      if (ms > LINE_MS) over += `M${cx} ${cy - 4}l4 7h-8z`;
      else dots += `M${cx - 2} ${cy}a2 2 0 1 0 4 0a2 2 0 1 0-4 0`;
    });
    const seconds = [];
    for (let t = Math.ceil(from); t <= from + WINDOW_S; t++) if (inner / WINDOW_S > 30 || t % 2 === 0) seconds.push(t);
    const picture = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Audio level, and computing time of each 80 ms, over the last 12 seconds" },
      s("text", { class: "vrt-caption", x: left, y: 9 }, "Audio that the model heard"),
      s("line", { class: "vrt-axis", x1: left, x2: width - right, y1: middle, y2: middle }),
      s("path", { class: "vrt-wave", d: wave }),
      s("text", { class: "vrt-caption", x: left, y: top - 8 }, "Computing time of each 80 ms (ms, logarithmic)"),
      [1, 10, 100, 1000].map((ms) => [
        s("line", { class: "vrt-grid", x1: left, x2: width - right, y1: y(ms), y2: y(ms) }),
        s("text", { class: "vrt-tick", x: left - 6, y: y(ms) + 4, "text-anchor": "end" }, `${ms}`)]),
      seconds.map((t) => [
        s("line", { class: "vrt-grid", x1: x(t), x2: x(t), y1: top, y2: top + msHeight }),
        s("text", { class: "vrt-tick", x: x(t), y: height - 6, "text-anchor": "middle" }, `${t} s`)]),
      s("line", { class: "vrt-limit", x1: left, x2: width - right, y1: y(LINE_MS), y2: y(LINE_MS) }),
      s("path", { class: "vrt-dots", d: dots }),
      s("path", { class: "vrt-over", d: over }),
      s("text", { class: "vrt-limit-text", x: width - right - 4, y: y(LINE_MS) + 15, "text-anchor": "end" }, "80 ms: real time"));
    charts.replaceChildren(picture);
  }

  const unfollow = followWidth(charts, drawCharts);
  model.on("msg:custom", onMessage);
  setPhase("idle");
  greet();

  return () => {
    state.alive = false;
    if (state.microphone) stopAll();
    model.off("msg:custom", onMessage);
    unfollow();
  };
}

export default { render };
