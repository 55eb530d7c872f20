package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// exported is what `forkful export kubernetes` prints in a folder of configs.
func exported(t *testing.T, config string, options ...string) []byte {
	t.Helper()
	program := os.Getenv("FORKFUL_BIN")
	if program == "" {
		t.Fatal("FORKFUL_BIN does not name the program")
	}
	command := exec.Command(program, append([]string{"export", "kubernetes"}, options...)...)
	command.Dir = filepath.Join("configs", config)
	// Variables of whoever runs the tests say nothing about the app.
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "FORKFUL_HOME=" + t.TempDir()}
	var stderr strings.Builder
	command.Stderr = &stderr
	text, err := command.Output()
	if err != nil {
		t.Fatalf("export in %s: %v\n%s", config, err, stderr.String())
	}
	return text
}

func TestTheServerTakesWhatIsExported(t *testing.T) {
	cases := []struct {
		config  string
		options []string
		objects []string
	}{
		{"max", []string{"--image", "registry.example.com/api:1.4.0"}, []string{
			"Deployment api", "Service api", "HorizontalPodAutoscaler api", "PodDisruptionBudget api",
			"Deployment db-proxy", "Service db-proxy", "HorizontalPodAutoscaler db-proxy", "PodDisruptionBudget db-proxy",
		}},
		{"measured", []string{"--image", "api:1", "--rate", "3000", "--metric", "http_requests_per_second=400"}, []string{
			"Deployment api", "Service api", "HorizontalPodAutoscaler api", "PodDisruptionBudget api",
		}},
		{"worker", []string{"--image", "jobs:1", "--no-port", "--replicas", "1", "--max-replicas", "1"}, []string{
			"Deployment app-2nd-queue", "PodDisruptionBudget app-2nd-queue",
		}},
		{"sticky", []string{"chat", "--image", "chat:1", "--port", "80", "--env", "LOG_LEVEL=info"}, []string{
			"Deployment chat", "Service chat", "HorizontalPodAutoscaler chat", "PodDisruptionBudget chat",
		}},
	}
	for _, one := range cases {
		t.Run(one.config, func(t *testing.T) {
			objects, faults := Check(exported(t, one.config, one.options...))
			for _, fault := range faults {
				t.Error(fault)
			}
			if !reflect.DeepEqual(objects, one.objects) {
				t.Errorf("found %v instead of %v", objects, one.objects)
			}
		})
	}
}

// plant is one fault: a value at a path of the object of a kind. A value of nil removes the field.
type plant struct {
	name  string
	kind  string
	path  []any
	value any
	// The field that the server names.
	field string
}

var container = []any{"spec", "template", "spec", "containers", 0}

func in(path []any, more ...any) []any { return append(append([]any{}, path...), more...) }

var plants = []plant{
	{"a name with capitals", "Deployment", []any{"metadata", "name"}, "Api_1", "metadata.name"},
	{"a selector for other pods", "Deployment", []any{"spec", "selector", "matchLabels"}, map[string]any{"app": "other"}, "spec.template.metadata.labels"},
	{"a rollout that may do nothing", "Deployment", []any{"spec", "strategy", "rollingUpdate", "maxSurge"}, 0, "spec.strategy.rollingUpdate.maxUnavailable"},
	{"a field that does not exist", "Deployment", []any{"spec", "replicaz"}, 2, "spec.replicaz"},
	{"a text in place of a number", "Deployment", in(container, "startupProbe", "failureThreshold"), "often", "startupProbe.failureThreshold"},
	{"pods that are not started again", "Deployment", []any{"spec", "template", "spec", "restartPolicy"}, "Never", "spec.template.spec.restartPolicy"},
	{"a preStop beyond the grace period", "Deployment", in(container, "lifecycle", "preStop", "sleep", "seconds"), 3600, "spec.template.spec.containers[0].lifecycle.preStop.sleep"},
	{"a preStop that does nothing", "Deployment", in(container, "lifecycle", "preStop"), map[string]any{}, "spec.template.spec.containers[0].lifecycle.preStop"},
	{"no image", "Deployment", in(container, "image"), nil, "spec.template.spec.containers[0].image"},
	{"a container's name with capitals", "Deployment", in(container, "name"), "API", "spec.template.spec.containers[0].name"},
	{"a port above all ports", "Deployment", in(container, "ports", 0, "containerPort"), 70000, "spec.template.spec.containers[0].ports[0].containerPort"},
	{"two ports of one name", "Deployment", in(container, "ports", 1, "name"), "http", "spec.template.spec.containers[0].ports[1].name"},
	{"a variable without a name", "Deployment", in(container, "env", 0, "name"), "", "spec.template.spec.containers[0].env[0].name"},
	{"a limit below the request", "Deployment", in(container, "resources", "limits", "memory"), "16Mi", "spec.template.spec.containers[0].resources.requests"},
	{"less than no processor time", "Deployment", in(container, "resources", "requests", "cpu"), "-1", "spec.template.spec.containers[0].resources.requests[cpu]"},
	{"a probe of two kinds", "Deployment", in(container, "livenessProbe", "tcpSocket"), map[string]any{"port": 9640}, "spec.template.spec.containers[0].livenessProbe.tcpSocket"},
	{"a liveness that needs two successes", "Deployment", in(container, "livenessProbe", "successThreshold"), 2, "spec.template.spec.containers[0].livenessProbe.successThreshold"},
	{"a probe of a port with a long name", "Deployment", in(container, "readinessProbe", "httpGet", "port"), "the-port-of-probes", "spec.template.spec.containers[0].readinessProbe.httpGet.port"},
	{"a mount of no volume", "Deployment", in(container, "volumeMounts", 0, "name"), "temp", "spec.template.spec.containers[0].volumeMounts[0].name"},
	{"a user below zero", "Deployment", []any{"spec", "template", "spec", "securityContext", "runAsUser"}, -1, "spec.template.spec.securityContext.runAsUser"},
	{"pods spread without a skew", "Deployment", []any{"spec", "template", "spec", "topologySpreadConstraints", 0, "maxSkew"}, 0, "spec.template.spec.topologySpreadConstraints[0].maxSkew"},
	{"pods spread by an unknown rule", "Deployment", []any{"spec", "template", "spec", "topologySpreadConstraints", 1, "whenUnsatisfiable"}, "Never", "spec.template.spec.topologySpreadConstraints[1].whenUnsatisfiable"},
	{"a service without a port", "Service", []any{"spec", "ports", 0, "port"}, 0, "spec.ports[0].port"},
	{"a service to a port of no name", "Service", []any{"spec", "ports", 0, "targetPort"}, "Http!", "spec.ports[0].targetPort"},
	{"an unknown affinity", "Service", []any{"spec", "sessionAffinity"}, "Cookie", "spec.sessionAffinity"},
	{"an autoscaler with its bounds exchanged", "HorizontalPodAutoscaler", []any{"spec", "maxReplicas"}, 1, "spec.maxReplicas"},
	{"an autoscaler that aims at nothing", "HorizontalPodAutoscaler", []any{"spec", "metrics", 0, "resource", "target", "averageUtilization"}, 0, "spec.metrics[0].resource.target.averageUtilization"},
	{"an autoscaler of nothing", "HorizontalPodAutoscaler", []any{"spec", "scaleTargetRef", "name"}, "", "spec.scaleTargetRef.name"},
	{"a budget of two kinds", "PodDisruptionBudget", []any{"spec", "minAvailable"}, 1, "spec"},
	{"an unknown rule of eviction", "PodDisruptionBudget", []any{"spec", "unhealthyPodEvictionPolicy"}, "Never", "spec.unhealthyPodEvictionPolicy"},
}

func TestEachPlantedFaultIsRefusedByItsPath(t *testing.T) {
	if len(plants) < 20 {
		t.Fatalf("only %d faults are planted", len(plants))
	}
	good := exported(t, "measured", "--image", "api:1", "--env", "LOG_LEVEL=info")
	if _, faults := Check(good); len(faults) > 0 {
		t.Fatalf("the good manifest has faults: %v", faults)
	}
	for _, plant := range plants {
		t.Run(plant.name, func(t *testing.T) {
			_, faults := Check(planted(t, good, plant))
			if len(faults) == 0 {
				t.Fatal("it is taken")
			}
			for _, fault := range faults {
				// What the decoder refuses has its path in the message alone.
				if fault.Field == plant.field || fault.Field == "" && strings.Contains(fault.Message, plant.field) {
					return
				}
			}
			t.Errorf("no fault is at %s: %v", plant.field, faults)
		})
	}
}

// planted is the manifest with the fault in it.
func planted(t *testing.T, manifest []byte, plant plant) []byte {
	t.Helper()
	var documents []string
	found := false
	for _, document := range strings.Split(string(manifest), "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		if object["kind"] == plant.kind {
			found = true
			set(t, object, plant.path, plant.value)
		}
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, string(text))
	}
	if !found {
		t.Fatalf("the manifest has no %s", plant.kind)
	}
	return []byte(strings.Join(documents, "---\n"))
}

func set(t *testing.T, object any, path []any, value any) {
	t.Helper()
	for _, step := range path[:len(path)-1] {
		object = child(t, object, step)
	}
	fields, ok := object.(map[string]any)
	if !ok {
		t.Fatalf("%v leads to no object", path)
	}
	last := path[len(path)-1].(string)
	if value == nil {
		delete(fields, last)
	} else {
		fields[last] = value
	}
}

func child(t *testing.T, object any, step any) any {
	t.Helper()
	var found any
	switch step := step.(type) {
	case string:
		found = object.(map[string]any)[step]
	case int:
		if list, ok := object.([]any); ok && step < len(list) {
			found = list[step]
		}
	}
	if found == nil {
		t.Fatalf("the good manifest has nothing at %v", step)
	}
	return found
}
