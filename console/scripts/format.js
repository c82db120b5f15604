// How values are written for people. Pure.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/**
 * @param {number | null | undefined} ms
 * @returns {string} such as "840 ms", "3.2 s", "4 min 5 s", "2 h 3 min", "3 d 4 h"
 */
export function formatDuration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 60) return `${(ms / 1_000).toFixed(1)} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)} h ${Math.floor((seconds % 3_600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3_600)} h`;
}

/**
 * @param {string} time as of RFC 3339
 * @param {number} now in ms since 1970
 * @returns {string} such as "12 s ago", "in 3 min", "2 d ago"
 */
export function formatAge(time, now) {
  const ms = now - Date.parse(time);
  const seconds = Math.abs(ms) / 1_000;
  const [count, unit] =
    seconds < 60
      ? [seconds, "s"]
      : seconds < 3_600
        ? [seconds / 60, "min"]
        : seconds < 86_400
          ? [seconds / 3_600, "h"]
          : [seconds / 86_400, "d"];
  if (seconds < 1) return "now";
  return ms < 0 ? `in ${Math.floor(count)} ${unit}` : `${Math.floor(count)} ${unit} ago`;
}

/**
 * @param {string} time as of RFC 3339
 * @returns {string} in the user's time zone, such as "2026-11-23 14:05:09"
 */
export function formatTime(time) {
  const date = new Date(time);
  const pad = (/** @type {number} */ value) => String(value).padStart(2, "0");
  const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
  return `${day} ${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/**
 * @param {number} bytes
 * @returns {string} such as "12 B", "1.4 MiB"
 */
export function formatBytes(bytes) {
  let [value, unit] = [bytes, 0];
  while (value >= 1_024 && unit < UNITS.length - 1) [value, unit] = [value / 1_024, unit + 1];
  return `${unit === 0 ? value : value.toFixed(1)} ${UNITS[unit]}`;
}

/**
 * @param {number} count
 * @returns {string} such as "12,345"
 */
export function formatCount(count) {
  return count.toLocaleString("en");
}

/**
 * @param {number | null} share from 0 to 1
 * @returns {string} such as "99.5 %"; 100 % only if nothing is missing
 */
export function formatShare(share) {
  if (share === null) return "–";
  const percent = share < 1 ? Math.min(share * 100, 99.9) : 100;
  return `${percent.toFixed(percent % 1 ? 1 : 0)} %`;
}

/**
 * @param {number} count
 * @param {string} noun in the singular
 * @param {string} [plural] if it is not made with an s
 * @returns {string} such as "1 job", "2 jobs"
 */
export function formatNoun(count, noun, plural = `${noun}s`) {
  return `${formatCount(count)} ${count === 1 ? noun : plural}`;
}
