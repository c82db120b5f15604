// Contents of files, saved by the browser.

const KEPT_MS = 60_000; // until the browser has taken it

/**
 * @param {Response} response
 * @param {string} name of the file
 */
export async function saveAs(response, name) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(await response.blob()), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MS);
}
