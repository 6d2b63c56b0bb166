// The program, in a thread of its own: takes command lines, gives back what they said. One message in, one out, in order.
import startRehearsal from "./rehearsal.js";

let program;

// `module`: the compiled WebAssembly, which the page compiles once for all workers.
function start(module) {
  return startRehearsal({
    stdin: () => null,  // else a command that reads standard input would open a prompt
    instantiateWasm(imports, done) {
      WebAssembly.instantiate(module, imports).then(instance => done(instance, module));
      return {};
    },
  });
}

// Emscripten's own decoding ends at the first NUL, and some files are not text (export --as chakra).
const decoder = new TextDecoder("utf-8", {ignoreBOM: true});

// Files that a command makes are there only while it runs.
function run({ccall, FS: fs}, {words, files = {}, made = []}) {
  const begin = performance.now();
  const status = ccall("rehearse", "number", ["string", "string"], [JSON.stringify(words), JSON.stringify(files)]);
  const ms = performance.now() - begin;
  const answer = {status, ms, out: ccall("rehearse_out", "string"), err: ccall("rehearse_err", "string"), made: {}};
  for (const path of made) {
    const there = fs.analyzePath(path).exists;
    answer.made[path] = there ? decoder.decode(fs.readFile(path)) : null;
    if (there) fs.unlink(path);
  }
  return answer;
}

// The paths of the YAML files in a folder and below it, sorted.
function yamlFiles(fs, folder) {
  const paths = [];
  for (const name of fs.readdir("/" + folder).sort()) {
    const path = `${folder}/${name}`;
    if (name === "." || name === "..") continue;
    if (fs.isDir(fs.stat("/" + path).mode)) paths.push(...yamlFiles(fs, path));
    else if (name.endsWith(".yaml")) paths.push(path);
  }
  return paths;
}

self.onmessage = async ({data}) => {
  try {
    if (data.module) {
      program = start(data.module);
      await program;
      self.postMessage({ready: true});
      return;
    }
    const {FS: fs, ...rest} = await program;
    const {id, commands, list, read} = data;
    const answer = list ? yamlFiles(fs, list)
                 : read ? fs.readFile(read, {encoding: "utf8"})
                 : commands.map(command => run({FS: fs, ccall: rest.ccall}, command));
    self.postMessage({id, answer});
  } catch (error) {
    self.postMessage({id: data.id, failed: String(error)});
  }
};
