// Package platforms checks what `forkful export` writes for Compose, Nomad, Podman and systemd: with the parsers of their own
// projects where a public module has them. Kubernetes is in ../kubernetes.
package platforms
