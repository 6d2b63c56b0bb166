// A folder over HTTP, for looking at it and for tests: node web/serve.js FOLDER [PORT].
import {createReadStream, statSync} from "node:fs";
import {createServer} from "node:http";
import {extname, join, normalize, resolve} from "node:path";
import {fileURLToPath} from "node:url";

const types = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm"};

// Returns the server once it listens; port 0 takes any that is free.
export function serve(folder, port = 0) {
  const root = resolve(folder);
  const server = createServer((request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, "http://localhost").pathname));
    const file = join(root, path.endsWith("/") ? path + "index.html" : path);
    if (!file.startsWith(root) || !statSync(file, {throwIfNoEntry: false})?.isFile()) {
      response.writeHead(404).end("not found");
      return;
    }
    response.writeHead(200, {"Content-Type": types[extname(file)] ?? "application/octet-stream"});
    createReadStream(file).pipe(response);
  });
  return new Promise(done => server.listen(port, "127.0.0.1", () => done(server)));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const server = await serve(process.argv[2], Number(process.argv[3] ?? 8000));
  console.log(`http://localhost:${server.address().port}/`);
}
