// Where the values of a JSON text are, by their JSON pointers. Pure.

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g;

/** @typedef {{ offset: number, length: number, line: number }} TextPlace `line` counts from 1 */

/**
 * @param {string} text valid JSON
 * @param {string} pointer as of RFC 6901
 * @returns {TextPlace} of the name of the value, or of the nearest one around it
 */
export function findPlace(text, pointer) {
  const places = listPlaces(text);
  let nearest = pointer;
  while (nearest && !places.has(nearest)) nearest = nearest.slice(0, nearest.lastIndexOf("/"));
  const [offset, length] = places.get(nearest) ?? [0, 1];
  return { offset, length, line: text.slice(0, offset).split("\n").length };
}

/**
 * @param {string} text
 * @returns {Map<string, [number, number]>} the offset and length of each name, or of each element of a list, by pointer
 */
function listPlaces(text) {
  /** @type {Map<string, [number, number]>} */
  const places = new Map();
  const tokens = [...text.matchAll(TOKEN)].map((match) => ({ token: match[0], offset: Number(match.index) }));
  let next = 0;
  /** @param {string} pointer of the value that begins here */
  function readValue(pointer) {
    const opening = tokens[next++].token;
    if (opening !== "{" && opening !== "[") return;
    const closing = opening === "{" ? "}" : "]";
    for (let index = 0; tokens[next].token !== closing; index += 1) {
      const { token, offset } = tokens[next];
      const part = opening === "{" ? JSON.parse(token).replaceAll("~", "~0").replaceAll("/", "~1") : index;
      places.set(`${pointer}/${part}`, [offset, token.length]);
      if (opening === "{") next += 2;
      readValue(`${pointer}/${part}`);
      if (tokens[next].token === ",") next += 1;
    }
    next += 1;
  }
  readValue("");
  return places;
}
