// When the steps of a run began and ended. Pure.

/** @typedef {{ from: number, to: number | null }} StepTime in ms since 1970; `to` is null until the step has ended */

/**
 * @param {import("./timeline.js").JobEvent[]} events of a run, oldest first
 * @param {Record<string, import("./types.js").RunStep>} steps
 * @returns {Record<string, StepTime>} by the name of the step; one that has not begun is left out
 */
export function timeSteps(events, steps) {
  /** @type {Map<string, { from: string, to: string | null }>} a run has thousands of events, so few of their times are read */
  const times = new Map();
  for (const { type, timestamp, data } of events) {
    if (type === "step.started") times.set(data.step, { from: timestamp, to: null });
    const time = times.get(data.step);
    if (time && type !== "step.started" && type.startsWith("step.")) time.to = timestamp;
  }
  return Object.fromEntries(
    [...times].map(([name, { from, to }]) => {
      const lasts = to === null || steps[name]?.status === "running";
      return [name, { from: Date.parse(from), to: lasts ? null : Date.parse(to) }];
    }),
  );
}
