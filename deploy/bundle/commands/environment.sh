# Sets what every program of an installation needs. `$here` is the folder of the installation.
unset PYTHONHOME PYTHONPATH  # they are for other Pythons
[ "$(id -u)" -ne 0 ] || umask 022 # PostgreSQL then runs as another user, who reads its files
PATH="$here/usr/bin:$here/usr/lib/erlang/bin:$PATH"
export PATH
# OpenSSL here looks for authorities where Debian has them; other distributions have them elsewhere.
if [ -z "$SSL_CERT_FILE" ]; then
  for file in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem \
    "$here/services/lib/python3.11/site-packages/certifi/cacert.pem"; do
    if [ -r "$file" ]; then
      SSL_CERT_FILE=$file
      export SSL_CERT_FILE
      break
    fi
  done
fi
python=$here/services/bin/python
