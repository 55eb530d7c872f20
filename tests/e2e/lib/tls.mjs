// A temporary certificate for localhost, created with openssl.
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Writes key.pem and cert.pem into a directory, once: tests that share it run at the same time.
 * @param {string} directory
 */
export function writeCertificate(directory) {
  if (existsSync(join(directory, 'cert.pem'))) return;
  execFileSync('openssl', [
    'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
    '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1',
    '-keyout', join(directory, 'key.pem'), '-out', join(directory, 'cert.pem'),
  ], { stdio: ['ignore', 'ignore', 'pipe'] });
}
