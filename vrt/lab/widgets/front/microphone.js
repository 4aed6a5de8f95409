// The microphone as numbered blocks of float32 samples at its own rate, mixed to mono.

const BLOCK_MS = 80;

// Runs on the audio thread. A block's start is the context's own count of frames, so that frames
// which the browser skipped show as a gap.
const WORKLET = `
class Blocks extends AudioWorkletProcessor {
  constructor(options) {
    super();
    this.size = options.processorOptions.size;
    this.first = null;
    this.next = 0;
    this.open(0);
    this.port.onmessage = () => { this.flush(); this.port.postMessage({ end: this.next }); this.done = true; };
  }
  open(start) { this.start = start; this.block = new Float32Array(this.size); this.filled = 0; }
  flush() {
    if (!this.filled) return;
    const samples = this.block.slice(0, this.filled);
    this.port.postMessage({ start: this.start, samples: samples.buffer }, [samples.buffer]);
    this.open(this.next);
  }
  process([channels]) {
    if (this.done) return false;
    if (this.first === null) this.first = currentFrame;
    const at = currentFrame - this.first;
    if (at !== this.next) { this.flush(); this.next = at; this.open(at); }
    const frames = channels.length ? channels[0].length : 128;
    for (let i = 0; i < frames; i++) {
      let sum = 0;
      for (const channel of channels) sum += channel[i];
      this.block[this.filled++] = channels.length ? sum / channels.length : 0;
      this.next++;
      if (this.filled === this.size) this.flush();
    }
    return true;
  }
}
registerProcessor("vrt-blocks", Blocks);
`;

const DENIED = {
  NotAllowedError:
    "The browser did not give permission for the microphone. Allow it at the left of the address bar, then press Record again.",
  NotFoundError: "The browser found no microphone. Plug one in, or play a file.",
  NotReadableError:
    "The microphone is there and cannot be read: another program may hold it. Close that, then press Record again.",
};

function insecure() {
  return (
    `Browsers give the microphone to https pages and to localhost only; this page is ${location.origin}. ` +
    "Open Jupyter as localhost (through a tunnel: ssh -L 8888:localhost:8888 HOST), or serve it by https."
  );
}

// Opens the microphone; onBlock(start, buffer, rate), onEnd(start) once after stop(), onLost(why).
// Throws an Error whose message is for the user.
async function openMicrophone({ onBlock, onEnd, onLost }) {
  if (!navigator.mediaDevices || !window.isSecureContext) throw new Error(insecure());
  let stream, context;
  const free = () => {
    if (stream) stream.getTracks().forEach((track) => track.stop());
    if (context && context.state !== "closed") context.close();
  };
  try {
    stream = await navigator.mediaDevices.getUserMedia({
      audio: { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false },
    });
    context = new AudioContext();
    await context.resume();
    const url = URL.createObjectURL(new Blob([WORKLET], { type: "text/javascript" }));
    await context.audioWorklet.addModule(url);
    URL.revokeObjectURL(url);
  } catch (error) {
    free();
    throw new Error(DENIED[error.name] || `The microphone did not open: ${error.name}: ${error.message}`);
  }
  const rate = Math.round(context.sampleRate);
  const size = Math.round((rate * BLOCK_MS) / 1000);
  const node = new AudioWorkletNode(context, "vrt-blocks", { processorOptions: { size } });
  let ended = false;
  node.port.onmessage = ({ data }) => {
    if (data.samples) return onBlock(data.start, data.samples, rate);
    ended = true;
    free();
    onEnd(data.end);
  };
  stream.getTracks().forEach((track) => {
    track.onended = () => onLost("The microphone went away.");
  });
  context.createMediaStreamSource(stream).connect(node);
  node.connect(context.destination); // an output that is never written is silence; it keeps the node running
  return {
    rate,
    // The last samples come out, then the microphone is free; free at once where the audio thread is stuck.
    stop() {
      node.port.postMessage("stop");
      setTimeout(() => ended || (free(), onEnd(null)), 1000);
    },
    free,
  };
}
