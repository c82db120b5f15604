// The API key of the user, for as long as the tab is open.

const KEY = "charonia.key";

/** @type {Set<() => void>} */
const sessionListeners = new Set();

/** Why the last session ended, to be shown above the sign-in form. */
let endReason = "";

/** @returns {string} the key, or "" without a session */
export function readKey() {
  return sessionStorage.getItem(KEY) ?? "";
}

/** @returns {string} */
export function readEndReason() {
  return endReason;
}

/** @param {string} key */
export function beginSession(key) {
  endReason = "";
  sessionStorage.setItem(KEY, key);
  sessionListeners.forEach((listener) => listener());
}

/** @param {string} reason */
export function endSession(reason) {
  if (!readKey()) return;
  endReason = reason;
  sessionStorage.removeItem(KEY);
  sessionListeners.forEach((listener) => listener());
}

/**
 * @param {() => void} listener called when a session begins or ends
 * @returns {() => void} ends the calls
 */
export function onSession(listener) {
  sessionListeners.add(listener);
  return () => sessionListeners.delete(listener);
}
