// Where the steps of a pipeline are drawn: each one to the right of those that it needs. Pure.

const [CARD_WIDTH, CARD_HEIGHT] = [200, 92]; // pixels, as in styles/6-pipelines.css
const [COLUMN_GAP, ROW_GAP] = [56, 16];

/** @typedef {{ name: string, x: number, y: number }} Place the upper left corner of a card */

/**
 * @param {Record<string, string[]>} needs for each step, the steps that it refers to
 * @returns {{ places: Place[], lines: string[], width: number, height: number }} `lines` are paths of SVG
 */
export function layOutSteps(needs) {
  /** @type {Map<string, number>} */
  const columns = new Map();
  /** @type {(name: string) => number} */
  const columnOf = (name) => {
    const known = columns.get(name);
    if (known !== undefined) return known;
    columns.set(name, 0); // a cycle ends here
    const column = Math.max(-1, ...needs[name].map(columnOf)) + 1;
    columns.set(name, column);
    return column;
  };
  /** @type {number[]} */
  const rows = [];
  const places = Object.keys(needs).map((name) => {
    const column = columnOf(name);
    const row = rows[column] ?? 0;
    rows[column] = row + 1;
    return { name, x: column * (CARD_WIDTH + COLUMN_GAP), y: row * (CARD_HEIGHT + ROW_GAP) };
  });
  const found = new Map(places.map((place) => [place.name, place]));
  const lines = places.flatMap((place) => needs[place.name].map((need) => drawLine(/** @type {Place} */ (found.get(need)), place)));
  return {
    places,
    lines,
    width: rows.length * (CARD_WIDTH + COLUMN_GAP) - COLUMN_GAP,
    height: Math.max(...rows) * (CARD_HEIGHT + ROW_GAP) - ROW_GAP,
  };
}

/**
 * @param {Place} from
 * @param {Place} to
 */
function drawLine(from, to) {
  const [x, y, end, level] = [from.x + CARD_WIDTH, from.y + CARD_HEIGHT / 2, to.x, to.y + CARD_HEIGHT / 2];
  const middle = end - COLUMN_GAP / 2;
  return `M${x} ${y} C${middle} ${y} ${middle} ${level} ${end} ${level}`;
}
