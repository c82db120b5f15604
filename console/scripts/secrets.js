// Secrets that the API shows once. They are kept in memory until they have been shown.

/** @type {Map<string, string>} */
const freshSecrets = new Map();

/**
 * @param {string} id of what the secret belongs to
 * @param {string} secret
 */
export function rememberSecret(id, secret) {
  freshSecrets.set(id, secret);
}

/**
 * @param {string} id
 * @returns {string | undefined} the secret; it is forgotten
 */
export function takeSecret(id) {
  const secret = freshSecrets.get(id);
  freshSecrets.delete(id);
  return secret;
}
