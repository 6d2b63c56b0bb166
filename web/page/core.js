// Asks the program, which runs in a worker. Only here is known where its parts come from: beside the page, or, in the page
// that is one file, from inside it (web/pack.js puts them there).

import {unlzma} from "./lzma.js";

const unpacked = base64 => unlzma(Uint8Array.from(atob(base64), letter => letter.charCodeAt(0)));

async function compiled() {
  const inside = document.getElementById("packed-wasm");
  if (inside) return WebAssembly.compile(unpacked(inside.textContent));
  const response = await fetch("rehearsal.wasm");
  if (!response.ok) throw new Error(`rehearsal.wasm cannot be loaded: ${response.status} ${response.statusText}`);
  const asIs = response.clone();
  // Servers that do not know the type of .wasm files are common.
  return WebAssembly.compileStreaming(response).catch(async () => WebAssembly.compile(await asIs.arrayBuffer()));
}

function newWorker() {
  const inside = document.getElementById("packed-worker");
  if (!inside) return new Worker("worker.js", {type: "module"});
  return new Worker(URL.createObjectURL(new Blob([inside.textContent], {type: "text/javascript"})));
}

let module;  // the promise of the compiled program: one for all workers

export class Core {
  #worker = null;
  #waiting = new Map();  // by the number of the question
  #last = 0;

  // Commands: [{words, files: {path: text}, made: [path]}]. Answers in the same order: {status, out, err, made, ms}.
  ask(commands) {
    return this.#send({commands});
  }
  // The YAML files that came with the program, below a folder; the text of one.
  list(folder) {
    return this.#send({list: folder});
  }
  read(path) {
    return this.#send({read: path});
  }

  // Ends what is under way; the next question starts the program anew.
  stop() {
    if (this.#waiting.size === 0) return;
    this.#worker?.terminate();
    this.#worker = null;
    for (const {reject} of this.#waiting.values()) reject(new Stopped());
    this.#waiting.clear();
  }

  #start() {
    module ??= compiled();
    const worker = newWorker();
    worker.onmessage = ({data}) => {
      if (data.ready) return;
      const question = this.#waiting.get(data.id);
      this.#waiting.delete(data.id);
      if (!question) this.#fail(data.failed);
      else if (data.failed) question.reject(new Error(data.failed));
      else question.resolve(data.answer);
    };
    worker.onerror = event => this.#fail(event.message || "the worker could not be started");
    module.then(compiled => worker.postMessage({module: compiled}), error => this.#fail(String(error)));
    return worker;
  }

  #fail(why) {
    for (const {reject} of this.#waiting.values()) reject(new Error(why));
    this.#waiting.clear();
  }

  async #send(question) {
    this.#worker ??= this.#start();
    const worker = this.#worker, id = ++this.#last;
    const answer = new Promise((resolve, reject) => this.#waiting.set(id, {resolve, reject}));
    // The program first: questions must not overtake it.
    module.then(() => worker.postMessage({id, ...question}), () => {});
    return answer;
  }
}

export class Stopped extends Error {}
