// Command kubernetes checks manifests as the API server of Kubernetes does when it is asked to create their objects:
// strict decoding, defaults, then the validation of each kind. No cluster is needed.
//
//	go run . < manifest.yaml
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	text, err := io.ReadAll(io.LimitReader(os.Stdin, 1<<24))
	if err != nil {
		fmt.Fprintln(os.Stderr, "error: cannot read stdin:", err)
		os.Exit(1)
	}
	objects, faults := Check(text)
	for _, fault := range faults {
		fmt.Println(fault)
	}
	if len(faults) > 0 {
		os.Exit(1)
	}
	for _, object := range objects {
		fmt.Println(object, "is valid")
	}
}
