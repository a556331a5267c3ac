#!/usr/bin/env bash
# Certificates for tests of TLS, into tests/golden/tls: of localhost, valid for a hundred years, with
# keys that are no secret. Needs the openssl program.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=tests/golden/tls
mkdir -p "$out"

make() {  # NAME: a key and its certificate
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj "/CN=$1" \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout "$out/$1.key" -out "$out/$1.crt" 2> /dev/null
}
make localhost
make other
openssl pkey -in "$out/localhost.key" -aes128 -passout pass:secret -out "$out/passphrase.key"
rm "$out/other.crt"
