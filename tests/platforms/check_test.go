package platforms

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
)

// export runs `forkful export` in a folder of configs.
func export(t *testing.T, config string, arguments ...string) string {
	t.Helper()
	program := os.Getenv("FORKFUL_BIN")
	if program == "" {
		t.Fatal("FORKFUL_BIN does not name the program")
	}
	command := exec.Command(program, append([]string{"export"}, arguments...)...)
	command.Dir = filepath.Join("..", "kubernetes", "configs", config)
	// Variables of whoever runs the tests say nothing about the app.
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "FORKFUL_HOME=" + t.TempDir()}
	var stderr strings.Builder
	command.Stderr = &stderr
	text, err := command.Output()
	if err != nil {
		t.Fatalf("export in %s: %v\n%s", config, err, stderr.String())
	}
	return string(text)
}

func loadCompose(text string) (*types.Project, error) {
	details := types.ConfigDetails{
		WorkingDir:  "/srv",
		ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml", Content: []byte(text)}},
		Environment: types.Mapping{"HOME": "/somewhere"},
	}
	return loader.LoadWithContext(context.Background(), details, func(options *loader.Options) {
		options.SetProjectName("test", true)
	})
}

func TestComposeLoadsItsFile(t *testing.T) {
	project, err := loadCompose(export(t, "max", "compose", "--image", "api:1", "--env", "GREETING=$HOME"))
	if err != nil {
		t.Fatal(err)
	}
	api, err := project.GetService("api")
	if err != nil {
		t.Fatal(err)
	}
	if greeting := api.Environment["GREETING"]; greeting == nil || *greeting != "$HOME" {
		t.Errorf("a variable was replaced: %v", greeting)
	}
	if _, ok := api.DependsOn["db-proxy"]; !ok || len(api.Ports) != 1 || api.Ports[0].Target != 3000 {
		t.Errorf("%+v %+v", api.DependsOn, api.Ports)
	}
	if api.StopGracePeriod == nil || api.StopGracePeriod.String() != "25s" {
		t.Errorf("the grace period is %v", api.StopGracePeriod)
	}
	if memory := api.Deploy.Resources.Limits.MemoryBytes; memory != 544<<20 {
		t.Errorf("the limit of memory is %d", memory)
	}
}

func TestComposeRefusesPlantedFaults(t *testing.T) {
	good := export(t, "max", "compose", "--image", "api:1")
	for _, fault := range [][2]string{
		{"read_only: true", "read_onli: true"},
		{"stop_grace_period: 25s", "stop_grace_period: soon"},
		{"condition: service_healthy", "condition: healthy"},
		{"      retries: 3", "      retries: often"},
		{"3000:3000", "3000:http"},
	} {
		bad := strings.Replace(good, fault[0], fault[1], 1)
		if bad == good {
			t.Fatalf("the good file has no %q", fault[0])
		}
		if _, err := loadCompose(bad); err == nil {
			t.Errorf("%q is taken", fault[1])
		}
	}
}

// The blocks of a job's specification that are written, each with its attributes and blocks.
type block struct {
	labels     []string
	attributes []string
	blocks     map[string]block
}

var job = block{
	attributes: []string{"type"},
	labels:     []string{"name"},
	blocks: map[string]block{
		"update": {attributes: []string{"max_parallel", "canary", "auto_promote", "auto_revert", "healthy_deadline", "progress_deadline"}},
		"group": {
			labels:     []string{"name"},
			attributes: []string{"count"},
			blocks: map[string]block{
				"scaling": {attributes: []string{"min", "max"}, blocks: map[string]block{
					"policy": {blocks: map[string]block{"check": {
						labels: []string{"name"}, attributes: []string{"source", "query"},
						blocks: map[string]block{"strategy": {labels: []string{"name"}, attributes: []string{"target"}}},
					}}},
				}},
				"spread":  {attributes: []string{"attribute"}},
				"network": {blocks: map[string]block{"port": {labels: []string{"name"}, attributes: []string{"to"}}}},
				"service": {attributes: []string{"name", "provider", "port"}, blocks: map[string]block{
					"check": {attributes: []string{"type", "port", "path", "interval", "timeout"}},
				}},
				"task": {labels: []string{"name"},
					attributes: []string{"driver", "shutdown_delay", "kill_signal", "kill_timeout", "user"},
					blocks: map[string]block{
						"config": {attributes: []string{"image", "command", "args", "ports", "readonly_rootfs", "cap_drop"}, blocks: map[string]block{
							"mount": {attributes: []string{"type", "target", "readonly"}},
						}},
						"env":       {attributes: []string{"GREETING", "UV_THREADPOOL_SIZE"}},
						"resources": {attributes: []string{"cores", "memory"}},
					}},
			},
		},
	},
}

// values are the texts and numbers of a body by their path; what the specification does not have is an error.
func values(t *testing.T, path string, body hcl.Body, known block, found map[string]string) {
	t.Helper()
	schema := &hcl.BodySchema{}
	for _, name := range known.attributes {
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: name})
	}
	for name, inner := range known.blocks {
		schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: name, LabelNames: inner.labels})
	}
	content, faults := body.Content(schema)
	if faults.HasErrors() {
		t.Fatal(faults)
	}
	for name, attribute := range content.Attributes {
		// A reference is filled in where the job runs.
		if value, faults := attribute.Expr.Value(nil); !faults.HasErrors() {
			found[path+name] = value.GoString()
		}
	}
	for _, inner := range content.Blocks {
		values(t, path+inner.Type+".", inner.Body, known.blocks[inner.Type], found)
	}
}

func TestNomadsLanguageReadsTheJob(t *testing.T) {
	text := export(t, "measured", "nomad", "--image", "api:1", "--env", "GREETING=${HOME} \"%{if}\"")
	file, faults := hclparse.NewParser().ParseHCL([]byte(text), "api.nomad.hcl")
	if faults.HasErrors() {
		t.Fatal(faults)
	}
	found := map[string]string{}
	values(t, "", file.Body, block{blocks: map[string]block{"job": job}}, found)
	for path, expected := range map[string]string{
		"job.group.task.env.GREETING":     `cty.StringVal("${HOME} \"%{if}\"")`,
		"job.group.task.kill_timeout":     `cty.StringVal("10s")`,
		"job.group.task.shutdown_delay":   `cty.StringVal("5s")`,
		"job.group.task.resources.cores":  `cty.NumberIntVal(2)`,
		"job.group.task.resources.memory": `cty.NumberIntVal(784)`,
	} {
		if found[path] != expected {
			t.Errorf("%s is %s", path, found[path])
		}
	}
}

func TestSystemdTakesTheUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	folder := t.TempDir()
	for _, config := range []string{"max", "measured", "worker", "sticky"} {
		options := []string{"systemd", "--out", folder, "--env", "GREETING=100% \"you\""}
		if config == "worker" {
			options = append(options, "--no-port")
		} else if config == "sticky" {
			options = append(options, "chat", "--port", "80")
		}
		export(t, config, options...)
	}
	units, err := filepath.Glob(filepath.Join(folder, "*.service"))
	if err != nil || len(units) != 4 {
		t.Fatalf("%v %v", units, err)
	}
	for _, unit := range units {
		if said := verified(t, analyze, unit); said != "" {
			t.Errorf("%s: %s", filepath.Base(unit), said)
		}
	}
	text, err := os.ReadFile(filepath.Join(folder, "chat.service"))
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range [][2]string{{"KillMode=mixed", "KillMode=some"}, {"TimeoutStopSec=", "TimeoutStopSecs="}, {"MemoryMax=", "MemoryMax=-"}} {
		bad := filepath.Join(t.TempDir(), "bad.service")
		if err := os.WriteFile(bad, []byte(strings.Replace(string(text), fault[0], fault[1], 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if verified(t, analyze, bad) == "" {
			t.Errorf("%s is taken", fault[1])
		}
	}
}

// verified is what systemd says against a unit.
func verified(t *testing.T, analyze, unit string) string {
	t.Helper()
	// What it says of units of the machine is not about ours.
	said, _ := exec.Command(analyze, "verify", "--man=no", "--recursive-errors=no", unit).CombinedOutput()
	var own []string
	for line := range strings.Lines(string(said)) {
		if strings.Contains(line, filepath.Base(unit)) {
			own = append(own, strings.TrimSpace(line))
		}
	}
	return strings.Join(own, "\n")
}

// Podman's own parser of these files is in no module that can be had; its keys are in podman-systemd.unit(5).
func TestTheContainerHasPodmansKeys(t *testing.T) {
	known := map[string]string{
		"Unit": "Description Wants After",
		"Container": "ContainerName Image Exec Environment User Group PublishPort ReadOnly Tmpfs DropCapability NoNewPrivileges " +
			"HealthCmd HealthInterval HealthTimeout HealthRetries HealthStartPeriod PodmanArgs",
		"Service": "Restart TimeoutStopSec",
		"Install": "WantedBy",
	}
	section := ""
	for line := range strings.Lines(export(t, "measured", "quadlet", "--image", "api:1", "--env", "GREETING=hello you")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSuffix(name, "]")
			continue
		}
		key, _, _ := strings.Cut(line, "=")
		if !strings.Contains(" "+known[section]+" ", " "+key+" ") {
			t.Errorf("[%s] has no %s", section, key)
		}
	}
	if section != "Install" {
		t.Errorf("the last section is %q", section)
	}
}
