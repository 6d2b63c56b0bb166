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

function folderOf(path) {
  return path.slice(0, path.lastIndexOf("/") + 1);
}

function readIfThere(fs, path) {
  return fs.analyzePath(path).exists ? fs.readFile(path, {encoding: "utf8"}) : null;
}

// Files that a command reads or makes are there only while it runs: shipped ones come back afterwards.
function run({ccall, FS: fs}, {words, files = {}, made = []}) {
  const before = Object.keys(files).map(path => [path, readIfThere(fs, path)]);
  for (const [path, text] of Object.entries(files)) {
    fs.mkdirTree("/" + folderOf(path));
    fs.writeFile(path, text);
  }
  const begin = performance.now();
  const status = ccall("rehearse", "number", ["string"], [JSON.stringify(words)]);
  const ms = performance.now() - begin;
  const answer = {status, ms, out: fs.readFile("/stdout", {encoding: "utf8"}),
                  err: fs.readFile("/stderr", {encoding: "utf8"}), made: {}};
  for (const path of made) {
    answer.made[path] = readIfThere(fs, path);
    if (answer.made[path] !== null) fs.unlink(path);
  }
  for (const [path, text] of before) {
    if (text === null) fs.unlink(path);
    else fs.writeFile(path, text);
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
