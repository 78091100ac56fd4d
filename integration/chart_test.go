package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/millrace-data/millrace/integration/harness"
)

const chart = "../deploy/helm/millrace"

// examples returns the chart's example files.
func examples(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../deploy/helm/examples/*.yaml")
	if err != nil || len(files) != 11 {
		t.Fatalf("got %d files and %v, want eleven files of values", len(files), err)
	}
	return append(files, "../examples/helm-cluster-disk.yaml")
}

// tried runs an installed program, and returns its output and its error.
func tried(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), harness.Installed(t, name), args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home, "HELM_DATA_HOME="+home)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	return string(out) + stderr.String(), err
}

func mustTry(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := tried(t, name, args...)
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return out
}

// rendered returns the chart's objects for a release called gateways in the namespace training.
func rendered(t *testing.T, args ...string) string {
	t.Helper()
	return mustTry(t, "helm", append([]string{"template", "gateways", chart, "--namespace", "training"}, args...)...)
}

// validate checks objects against the schemas of Kubernetes, cert-manager and the Prometheus
// Operator.
func validate(t *testing.T, text string) error {
	t.Helper()
	file := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	schemas := filepath.Join(filepath.Dir(harness.Installed(t, "kubeconform")), "..", "schemas", "{{.ResourceKind}}{{.KindSuffix}}.json")
	out, err := tried(t, "kubeconform", "-strict", "-schema-location", schemas, file)
	if err != nil {
		t.Logf("kubeconform: %s", out)
	}
	return err
}

// object is the part of a Kubernetes object that tests use.
type object = map[string]any

// objects parses rendered text. It also parses the files in config maps, so that tests compare
// their meaning.
func objects(t *testing.T, text string) map[string]object {
	t.Helper()
	all := map[string]object{}
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var o object
		if err := d.Decode(&o); err != nil {
			break
		}
		if o == nil {
			continue
		}
		if o["kind"] == "ConfigMap" {
			for name, file := range o["data"].(object) {
				var content any
				if err := yaml.Unmarshal([]byte(file.(string)), &content); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				o["data"].(object)[name] = content
			}
		}
		all[o["kind"].(string)+"/"+o["metadata"].(object)["name"].(string)] = o
	}
	if len(all) == 0 {
		t.Fatalf("no objects in %s", text)
	}
	return all
}

// field returns the value in an object at a path of keys.
func field(v any, keys ...string) any {
	for _, k := range keys {
		m, _ := v.(object)
		v = m[k]
	}
	return v
}

func TestChartRendersValidObjects(t *testing.T) {
	for _, values := range examples(t) {
		t.Run(strings.TrimSuffix(filepath.Base(values), ".yaml"), func(t *testing.T) {
			mustTry(t, "helm", "lint", "--strict", "--quiet", chart, "--values", values)
			if err := validate(t, rendered(t, "--values", values)); err != nil {
				t.Error(err)
			}
		})
	}
	for _, wrong := range []string{
		"apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a}\nspec: {replica: 1, selector: {}, template: {}, serviceName: a}\n",
		"apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: a}\nspec: {secret: a, secretName: a, issuerRef: {name: a}}\n",
	} {
		if validate(t, wrong) == nil {
			t.Errorf("%s: is valid, want a fault: the schemas hold nothing", wrong)
		}
	}
}

func TestChartRefusesWrongValues(t *testing.T) {
	for set, want := range map[string]string{
		"replica=2":                    "replica",
		"cacheSize=4GB":                "/cacheSize",
		"disk.size=1Gi,mode=daemonset": "/disk/hostPath",
		"socket.hostPath=/run/millrace,access.grants[0].who[0]=anonymous": "/mode",
		"socket.hostPath=/run/millrace,mode=daemonset":                    "/access",
		"peers.enabled=true":          "/peers",
		"mode=deployment":             "/mode",
		"serviceMonitor.enabled=true": "requires networkPolicy.monitoring",
		"serviceMonitor.enabled=true,networkPolicy.enabled=false,access.grants[0].who[0]=anonymous": "requires serviceMonitor.tokenSecret",
		"settings.memory.quota[0]=imagenet=1XB":                                                     "must be a size",
		`settings.memory.quota[0]=imagenet=1GiB\,disk=9GiB,disk.size=10Gi`:                          "must exceed the disk quotas",
		"datasets=null":     "datasets",
		"datasets[0].nme=x": "/datasets/0",
	} {
		out, err := tried(t, "helm", "template", "gateways", chart, "--values", "../deploy/helm/examples/s3.yaml", "--set", set)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("--set %s: got %v and %s, want a fault that names %s", set, err, out, want)
		}
	}
	if out, err := tried(t, "helm", "template", "gateways", chart); err == nil || !strings.Contains(out, "/datasets") {
		t.Errorf("without values: got %v and %s, want a fault that names /datasets", err, out)
	}
}

// TestChartValuesAreDescribed requires a comment above each value, and an entry in the schema.
func TestChartValuesAreDescribed(t *testing.T) {
	text, err := os.ReadFile(chart + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	above, group := "", regexp.MustCompile(`^[a-zA-Z0-9]+:$`)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if key := strings.TrimSpace(line); key != "" && !strings.HasPrefix(key, "#") && !group.MatchString(line) && !strings.HasPrefix(strings.TrimSpace(above), "#") {
			t.Errorf("%s: no comment says what it is", key)
		}
		above = line
	}
	var values object
	var schema struct {
		Properties map[string]struct{ Properties map[string]any }
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	text, err = os.ReadFile(chart + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	for name, value := range values {
		described := schema.Properties[name].Properties
		if inner, _ := value.(object); len(described) > 0 && !cmp.Equal(slices.Sorted(maps.Keys(inner)), slices.Sorted(maps.Keys(described))) {
			t.Errorf("%s: the values have %q, the schema %q", name, slices.Sorted(maps.Keys(inner)), slices.Sorted(maps.Keys(described)))
		}
		delete(schema.Properties, name)
	}
	delete(schema.Properties, "global")
	if len(schema.Properties) > 0 {
		t.Errorf("the schema knows %q, which values.yaml does not have", slices.Sorted(maps.Keys(schema.Properties)))
	}
}

// TestChartSettingsAreValid passes the settings of each example to serve --check, with data,
// certificates and memory of this machine.
func TestChartSettingsAreValid(t *testing.T) {
	files, _ := harness.Files(t, 50, 1000)
	store := harness.Open(t, "dir")
	harness.Pack(t, store, files, "photos")
	certificates := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "sh", "../deploy/certificates.sh", certificates, "tls").CombinedOutput(); err != nil {
		t.Fatalf("certificates.sh: %v\n%s", err, out)
	}
	for _, values := range examples(t) {
		t.Run(strings.TrimSuffix(filepath.Base(values), ".yaml"), func(t *testing.T) {
			data := field(objects(t, rendered(t, "--values", values))["ConfigMap/gateways"], "data").(object)
			dir := t.TempDir()
			for name, content := range data {
				if name == "datasets.yaml" {
					named := field(content, "datasets").(object)
					for d := range named {
						named[d] = store.Dataset("photos")
					}
				}
				if name == "millrace.yaml" {
					content.(object)["memory"].(object)["cache-size"] = "64MiB"
					if disk, ok := content.(object)["disk"].(object); ok {
						disk["disk-cache-size"] = "64MiB"
					}
				}
				text, err := yaml.Marshal(content)
				if err != nil {
					t.Fatal(err)
				}
				placed := strings.NewReplacer(
					"/etc/millrace/", dir+"/", "/var/lib/millrace/", dir+"/",
					"tls.crt", "tls.pem", "ca.crt", "ca.pem", "/etc/millrace-tls/", certificates+"/", "/etc/millrace-peer/", certificates+"/",
				).Replace(string(text))
				if err := os.WriteFile(filepath.Join(dir, name), []byte(placed), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			harness.MustRun(t, store.With(), "serve", "--config", filepath.Join(dir, "millrace.yaml"), "--check")
		})
	}
}

// TestChartResources checks how values determine the container's resource requests and the
// program's flags.
func TestChartResources(t *testing.T) {
	all := objects(t, rendered(t, "--values", "../deploy/helm/examples/everything.yaml"))
	pod := field(all["StatefulSet/gateways"], "spec", "template", "spec")
	container := field(pod, "containers").([]any)[0]
	want := object{"requests": object{"cpu": "4", "memory": "2688Mi"}, "limits": object{"memory": "2688Mi"}} // 1 GiB, an eighth of it, 512 MiB; TLS: 1 GiB
	if got := field(container, "resources"); !cmp.Equal(got, any(want)) {
		t.Errorf("resources: got %v, want %v", got, want)
	}
	for _, want := range []string{"map[name:AWS_CA_BUNDLE value:/etc/millrace-s3/ca.crt]", "map[name:AWS_SHARED_CREDENTIALS_FILE value:/etc/millrace-s3-credentials/credentials]"} {
		if got := fmt.Sprint(field(container, "env")); !strings.Contains(got, want) {
			t.Errorf("environment: got %s, want %s", got, want)
		}
	}
	for _, c := range []struct{ cache, tls, quota, want string }{
		{"1Gi", "", "", "1664Mi"},
		{"256Mi", "", "", "800Mi"},
		{"256Mi", "cert", "", "1312Mi"}, // 4096 connections of 128 KiB
		{"16Gi", "cert", "", "19968Mi"}, // no more than 8192 connections
		{"1Gi", "", `,settings.memory.quota=photos=1.5GiB\,disk=1GB\,b=1KB`, "3393Mi"}, // as if the cache were 2561 MiB
		{"1Gi", "", `,settings.memory.quota={photos=1.5GiB\,disk=1GB,b=1KB}`, "3393Mi"},
	} {
		all := objects(t, rendered(t, "--set", "disk.size=10Gi,datasets[0].name=photos,datasets[0].url=s3://bucket/photos,cacheSize="+c.cache+",tls.secret="+c.tls+c.quota))
		container := field(all["StatefulSet/gateways"], "spec", "template", "spec", "containers").([]any)[0]
		if got := field(container, "resources", "limits", "memory"); got != c.want {
			t.Errorf("cache of %s, certificate %q, %q: got a limit of %v, want %s", c.cache, c.tls, c.quota, got, c.want)
		}
		disk := "8704MiB" // 85 % of 10 GiB
		if c.quota != "" {
			disk = "7750MiB" // without the quota of 954 MiB
		}
		if got := field(all["ConfigMap/gateways"], "data", "millrace.yaml", "disk", "disk-cache-size"); got != disk {
			t.Errorf("disk with %q: got %v, want %s", c.quota, got, disk)
		}
	}
	if got := field(pod, "terminationGracePeriodSeconds"); got != 20+120+5 {
		t.Errorf("grace period: got %v, want the lame-duck time, the drain and five seconds", got)
	}
	settings := field(all["ConfigMap/gateways"], "data", "millrace.yaml")
	if got := field(settings, "disk", "disk-cache-size"); got != "8704MiB" { // 85 % of 10 GiB
		t.Errorf("disk: got %v, want 8704MiB", got)
	}
	if follow, level := field(settings, "data", "follow"), field(settings, "log", "log-level"); follow != "5m" || level != "warn" {
		t.Errorf("settings of the values: got follow %v and log-level %v, want 5m and warn", follow, level)
	}
	if headless := all["Service/gateways"]; field(headless, "spec", "clusterIP") != "None" || field(headless, "spec", "publishNotReadyAddresses") != true {
		t.Errorf("service gateways: got %v, want headless, with gateways that are not ready", field(headless, "spec"))
	}
}

// TestChartSocket checks that with a directory of the node in its values the gateway also listens
// there, and that its pod mounts that directory.
func TestChartSocket(t *testing.T) {
	for values, listen := range map[string]string{"socket": ":8080,unix:/run/millrace/socket", "daemonset": ":8080"} {
		all := objects(t, rendered(t, "--values", "../deploy/helm/examples/"+values+".yaml"))
		ports := field(all["ConfigMap/gateways"], "data", "millrace.yaml", "ports").(object)
		if got := ports["listen"]; got != listen {
			t.Errorf("%s: got %v, want %s", values, got, listen)
		}
		mode, mount, directory := any(nil), any(nil), any(nil)
		if values == "socket" {
			mode, mount, directory = "0666", object{"name": "socket", "mountPath": "/run/millrace"}, object{"path": "/run/millrace", "type": "Directory"}
		}
		pod := field(all["DaemonSet/gateways"], "spec", "template", "spec")
		named := func(list any) any {
			for _, one := range list.([]any) {
				if field(one, "name") == "socket" {
					return one
				}
			}
			return nil
		}
		got := []any{ports["socket-mode"], named(field(field(pod, "containers").([]any)[0], "volumeMounts")), field(named(field(pod, "volumes")), "hostPath")}
		if want := []any{mode, mount, directory}; !cmp.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", values, got, want)
		}
	}
}

// TestChartRestartsForSettingsOnly changes datasets, which gateways reload without a restart, and
// settings, which require one.
func TestChartRestartsForSettingsOnly(t *testing.T) {
	template := func(set string) any {
		out := rendered(t, "--values", "../deploy/helm/examples/s3.yaml", "--set", set)
		return field(objects(t, out)["StatefulSet/gateways"], "spec", "template")
	}
	before := template("replicas=4")
	if diff := cmp.Diff(before, template("datasets[0].url=s3://train/other")); diff != "" {
		t.Errorf("another dataset changes the pods: %s", diff)
	}
	if cmp.Equal(before, template("settings.memory.budget-wait=5s")) {
		t.Error("another setting does not change the pods, so nothing restarts them")
	}
}

// TestJobsAreValid checks the files of the job in docs/kubernetes.md against the schemas, and its
// values against the chart's schema.
func TestJobsAreValid(t *testing.T) {
	text := map[string]string{}
	for _, name := range []string{"index", "index-parts"} {
		file, err := os.ReadFile("../deploy/kubernetes/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		text[name] = string(file)
	}
	for name, text := range map[string]string{
		"index": text["index"], "index-parts": text["index-parts"], "train": mustTry(t, "kustomize", "build", "../deploy/kubernetes/train"),
		"gateways": rendered(t, "--values", "../deploy/kubernetes/gateways.yaml"),
	} {
		if err := validate(t, text); err != nil || len(objects(t, text)) == 0 {
			t.Errorf("%s: got %d objects, %v", name, len(objects(t, text)), err)
		}
	}
}

// TestChart_LivenessProbesHaveAPortOfTheirOwn checks that clients cannot reach the port of the
// liveness probe, which decides about restarts.
func TestChart_LivenessProbesHaveAPortOfTheirOwn(t *testing.T) {
	for _, file := range examples(t) {
		all := objects(t, rendered(t, "--values", file))
		var settings, workload object
		for name, o := range all {
			switch o["kind"] {
			case "ConfigMap":
				settings, _ = field(o, "data", "millrace.yaml").(object)
			case "StatefulSet", "DaemonSet":
				workload = o
			case "Service", "NetworkPolicy":
				if text, _ := json.Marshal(o["spec"]); strings.Contains(string(text), `"health"`) {
					t.Errorf("%s: %s names the health port", file, name)
				}
			}
		}
		container, _ := field(workload, "spec", "template", "spec", "containers").([]any)[0].(object)
		for _, probe := range []string{"startupProbe", "livenessProbe"} {
			if got := field(container, probe, "httpGet"); !cmp.Equal(got, object{"path": "/healthz", "port": "health", "scheme": "HTTP"}) {
				t.Errorf("%s: %s: got %v, want the health port", file, probe, got)
			}
		}
		port := object{"name": "health", "containerPort": 8081}
		ports, _ := container["ports"].([]any)
		if got := field(settings, "ports", "health-listen"); got != ":8081" || !slices.ContainsFunc(ports, func(p any) bool { return cmp.Equal(p, any(port)) }) {
			t.Errorf("%s: got health-listen %v and ports %v, want 8081 in both", file, got, ports)
		}
	}
}

// TestKustomizeIsTheChart compares the output of kustomize with that of the chart for the same
// settings.
func TestKustomizeIsTheChart(t *testing.T) {
	plain := []string{"--set", "datasets[0].name=photos,datasets[0].url=s3://bucket/photos,s3.secret=s3"}
	for name, wishes := range map[string][]string{
		"base":      plain,
		"peers":     append(slices.Clone(plain), "--set", "peers.enabled=true,peers.secret=gateways-peer"),
		"daemonset": append(slices.Clone(plain), "--set", "mode=daemonset"),
	} {
		t.Run(name, func(t *testing.T) {
			out := mustTry(t, "kustomize", "build", "../deploy/kustomize/"+name)
			if err := validate(t, out); err != nil {
				t.Error(err)
			}
			got, want := objects(t, out), objects(t, rendered(t, wishes...))
			for _, o := range want { // objects that only Helm has
				for _, labelled := range []any{field(o, "metadata"), field(o, "spec", "template", "metadata")} {
					labels, _ := field(labelled, "labels").(object)
					delete(labels, "app.kubernetes.io/version")
					delete(labels, "app.kubernetes.io/managed-by")
					if m, ok := labelled.(object); ok {
						delete(m, "annotations")
					}
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the chart (-) and kustomize (+) differ:\n%s", diff)
			}
		})
	}
}
