// OpenAI's own client for Node: prints what the main calls answer as JSON. With a body on standard input, it verifies a webhook.

import { readFileSync } from "node:fs";
import OpenAI from "openai";

const [baseURL, apiKey, secret, headers] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 30_000, webhookSecret: secret });

async function call() {
  const models = [];
  for await (const model of client.models.list()) models.push(model.id);
  const messages = [{ role: "user", content: "one two" }];
  const chat = await client.chat.completions.create({ model: "messages_model", messages });
  const parts = [];
  for await (const chunk of await client.chat.completions.create({ model: "messages_model", messages, stream: true }))
    parts.push(chunk.choices[0].delta.content ?? null);
  const embedded = await client.embeddings.create({ model: "embeddings_model", input: "one two" });
  let response = await client.responses.create({ model: "messages_model", input: "one two", background: true });
  const begun = response.status;
  for (let tries = 0; tries < 200 && ["queued", "in_progress"].includes(response.status); tries++) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    response = await client.responses.retrieve(response.id);
  }
  const refused = await client.chat.completions.create({ model: "nope", messages }).catch((error) => error);
  return {
    models: models.includes("messages_model"),
    chat: chat.choices[0].message.content,
    stream: parts,
    embedding: embedded.data[0].embedding,
    response: [begun, response.status, response.output_text],
    error: [refused.constructor.name, refused.code],
  };
}

const found = secret ? await client.webhooks.unwrap(readFileSync(0, "utf8"), JSON.parse(headers)) : await call();
console.log(JSON.stringify(found));
