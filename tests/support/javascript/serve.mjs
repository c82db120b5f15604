// Serves a fetch-style handler, as a framework would: node serve.mjs MODULE, on the port PORT.
import { createServer } from "node:http";
import { Readable } from "node:stream";
import { pathToFileURL } from "node:url";

const { POST } = await import(pathToFileURL(process.argv[2]));

createServer(async (incoming, outgoing) => {
  const { method, headers } = incoming;
  const request = new Request(`http://localhost${incoming.url}`, { method, headers, body: Readable.toWeb(incoming), duplex: "half" });
  const answer = await POST(request);
  outgoing.writeHead(answer.status, Object.fromEntries(answer.headers));
  outgoing.end(Buffer.from(await answer.arrayBuffer()));
}).listen(Number(process.env.PORT));
