//go:build linux

package kubernetes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

const (
	chart     = "../../deploy/helm/millrace"
	dataset   = "photos"
	namespace = "data"
	release   = "gateways"
	chunkSize = 64 << 10
)

// lab is a cluster of three nodes, a store, and a gateway outside the cluster that provides the
// expected bytes.
type lab struct {
	*cluster
	kubelet    *kubelet
	reads      *harness.Reads
	alone      *harness.Gateway
	store      *harness.Store
	bytes      int64  // size of the dataset
	generation string // generation of its index
	dir        string // shared between jobs and the test
	jobs       int
}

func newLab(t *testing.T, c *cluster) *lab {
	t.Helper()
	at := c.island.Node(t, "store", "")
	l := &lab{cluster: c, dir: t.TempDir()}
	l.store, l.reads = harness.MinIOBehindCount(t, at, 0)
	files, _ := harness.Files(t, 2048, 8192)
	harness.Pack(t, l.store, files, dataset, "--shard-size", "1MiB", "--chunk-size", fmt.Sprint(chunkSize))
	l.alone = harness.ServeAt(t, at, l.store, dataset, "--cache-size", "128MiB")
	var page struct {
		Datasets []struct {
			Bytes      int64
			Generation string
		}
	}
	if err := json.Unmarshal(l.alone.MustGet(t, "/v1/datasets").Body, &page); err != nil || len(page.Datasets) != 1 {
		t.Fatalf("/v1/datasets: got %+v and %v, want one", page, err)
	}
	l.bytes, l.generation = page.Datasets[0].Bytes, page.Datasets[0].Generation
	l.kubelet = newKubelet(t, c, images(t), "node-a", "node-b", "node-c")
	newForwarder(t, l.kubelet)
	l.kubectl(t, l.surroundings(t, at), "apply", "--server-side", "-f", "-")
	return l
}

// images returns the images of the gateway, which contains only the program, and of readers, which
// contain the files of this machine.
func images(t *testing.T) map[string]image {
	t.Helper()
	program := bind{From: harness.Binary(t), To: "/millrace", ReadOnly: true}
	interpreter, env := harness.Python(t)
	_, file, _, _ := runtime.Caller(0)
	client := filepath.Join(filepath.Dir(file), "..", "..", "client", "python")
	reader := image{binds: []bind{program, {From: client, To: client, ReadOnly: true}}, env: []string{"PYTHON=" + interpreter, "PYTHONPATH=" + client}}
	for _, pair := range env {
		if strings.HasPrefix(pair, "OMP_") {
			reader.env = append(reader.env, pair)
		}
	}
	real, err := filepath.EvalSymlinks(interpreter)
	if err != nil {
		t.Fatal(err)
	}
	parent := func(path string) string { return filepath.Dir(filepath.Dir(path)) }
	for _, dir := range []string{"/usr", "/bin", "/lib", "/lib64", "/etc/ssl", "/etc/alternatives", parent(interpreter), parent(real)} {
		if _, err := os.Stat(dir); err == nil {
			reader.binds = append(reader.binds, bind{From: dir, To: dir, ReadOnly: true})
		}
	}
	trainer := image{binds: reader.binds, env: append(slices.Clip(reader.env), "PATH="+filepath.Dir(interpreter)+":/usr/bin:/bin")}
	return map[string]image{
		"ghcr.io/millrace-data/millrace": {binds: []bind{program}, entry: []string{"/millrace"}},
		"reader":                         reader,
		"registry.example/trainer":       trainer,
	}
}

// surroundings returns the objects that a cluster has before the chart is installed: the store's
// name and keys, and volumes.
func (l *lab) surroundings(t *testing.T, store *harness.Node) string {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, `
apiVersion: v1
kind: Namespace
metadata: {name: %s, labels: {pod-security.kubernetes.io/enforce: restricted}}
---
apiVersion: v1
kind: Namespace
metadata: {name: jobs}
---
apiVersion: v1
kind: Secret
metadata: {name: bucket, namespace: %[1]s}
stringData: {AWS_ACCESS_KEY_ID: %[2]q, AWS_SECRET_ACCESS_KEY: %[3]q}
---
apiVersion: v1
kind: Service
metadata: {name: minio, namespace: jobs}
spec: {clusterIP: None, ports: [{port: 9000}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: minio, namespace: jobs, labels: {kubernetes.io/service-name: minio}}
addressType: IPv4
ports: [{port: 9000}]
endpoints: [{addresses: [%[4]q]}]
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
`, namespace, l.store.Setting(t, "AWS_ACCESS_KEY_ID"), l.store.Setting(t, "AWS_SECRET_ACCESS_KEY"), store.IP)
	for i := range 4 {
		fmt.Fprintf(&text, `---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk-%d}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: local
  hostPath: {path: %s}
`, i, filepath.Join(l.dir, fmt.Sprint("disk-", i)))
	}
	return text.String()
}

// install installs or changes the release with Helm, and waits until it is rolled out.
func (l *lab) install(t *testing.T, settings ...string) {
	t.Helper()
	args := []string{
		"upgrade", "--install", release, chart, "--namespace", namespace,
		"--set-json", fmt.Sprintf(`datasets=[{"name":%q,"url":"s3://%s/%s?endpoint=http://minio.jobs.svc:9000&region=us-east-1"}]`, dataset, harness.Bucket, dataset),
		"--set", "s3.secret=bucket",
		"--set", "cacheSize=256Mi,lameDuckSeconds=2,drainSeconds=20",
	}
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	if out, err := l.tool(t, "helm", "", args...); err != nil {
		t.Fatal(err, out)
	}
	l.rolled(t)
}

func (l *lab) rolled(t *testing.T) {
	t.Helper()
	l.kubectl(t, "", "-n", namespace, "rollout", "status", "statefulset/"+release, "--timeout", "2m")
}

// gateways returns the addresses of n gateways, with the names that the cluster gives them.
func gateways(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("http://%s-%d.%s.%s.svc:8080", release, i, release, namespace))
	}
	return strings.Join(all, " ")
}

// python returns a script that runs a Python program. The program begins with a client of two
// gateways, and a function that returns the epoch of one of four ranks.
func (l *lab) python(program string) string {
	return fmt.Sprintf(`
"$PYTHON" - <<'END'
import millrace
client = millrace.Client("%s".split(), dataset="%s", routing=millrace.Routing(home="rank"))
def epoch(rank):
    return client.epoch(0, order=millrace.Order(generation="%s"), share=millrace.Share(rank=rank, world_size=4, by="locality", homes=2))
%s
END`, gateways(2), dataset, l.generation, strings.TrimSpace(program))
}

// job starts a Job with one pod, which runs a script, and returns the Job's name.
func (l *lab) job(t *testing.T, script string) string {
	t.Helper()
	l.jobs++
	name := fmt.Sprint("job-", l.jobs)
	l.submit(t, name, 1, script)
	return name
}

// submit starts an Indexed Job with the given number of pods.
func (l *lab) submit(t *testing.T, name string, pods int, script string) {
	t.Helper()
	job := map[string]any{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]string{"name": name, "namespace": "jobs"},
		"spec": map[string]any{
			"completionMode": "Indexed", "completions": pods, "parallelism": pods, "backoffLimit": 0,
			"template": map[string]any{"spec": map[string]any{
				"restartPolicy": "Never", "subdomain": name,
				"containers": []any{map[string]any{
					"name": "reader", "image": "reader:1", "command": []string{"/bin/bash", "-euo", "pipefail", "-c", script},
					"volumeMounts": []any{map[string]string{"name": "out", "mountPath": "/out"}},
				}},
				"volumes": []any{map[string]any{"name": "out", "hostPath": map[string]string{"path": l.dir}}},
			}},
		},
	}
	if err := l.call(t.Context(), http.MethodPost, "/apis/batch/v1/namespaces/jobs/jobs", asJSON, job, nil); err != nil {
		t.Fatal(err)
	}
}

// finish waits until a Job has succeeded, and returns its log.
func (l *lab) finish(t *testing.T, name string) string {
	t.Helper()
	until(t, name, func(ctx context.Context) error {
		var j struct {
			Status struct {
				Conditions []struct{ Type, Status string }
			}
		}
		if err := l.call(ctx, http.MethodGet, "/apis/batch/v1/namespaces/jobs/jobs/"+name, "", nil, &j); err != nil {
			return err
		}
		for _, c := range j.Status.Conditions {
			if c.Status == "True" && c.Type == "Failed" {
				t.Fatalf("%s failed:\n%s", name, l.kubectl(t, "", "-n", "jobs", "logs", "job/"+name))
			}
			if c.Status == "True" && c.Type == "Complete" {
				return nil
			}
		}
		return errors.New("it goes on")
	})
	return l.kubectl(t, "", "-n", "jobs", "logs", "job/"+name)
}

// epochs returns a script that reads epochs with four ranks in parallel, into numbered directories
// below a directory of /out. It reads at least one epoch. It ends after an epoch if a file `stop`
// exists there.
func epochs(into string, homes int) string {
	return fmt.Sprintf(`
mkdir -p /out/%[1]s; epoch=0
while true; do
  /millrace fetch %[2]s --world-size 4 --all-ranks --share locality --homes %[3]d --epoch $epoch --output /out/%[1]s/$epoch
  epoch=$((epoch + 1)); echo $epoch > /out/%[1]s/count
  if [ -e /out/%[1]s/stop ]; then break; fi
done`, into, gateways(homes), homes)
}

// right compares the output of epochs with batches from the gateway outside the cluster, and
// returns the number of epochs.
func (l *lab) right(t *testing.T, into string, homes int) (n int) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(l.dir, into))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		n++
		want := t.TempDir()
		harness.MustRun(t, l.store, "fetch", l.alone.URL, "--world-size", "4", "--all-ranks", "--share", "locality",
			"--homes", fmt.Sprint(homes), "--epoch", e.Name(), "--output", want)
		got, right := sums(t, filepath.Join(l.dir, into, e.Name())), sums(t, want)
		if len(right) < 4 || got != right {
			t.Errorf("%s, epoch %s: got other bytes than a gateway alone delivers:\n%s\nwant\n%s", into, e.Name(), got, right)
		}
	}
	return n
}

// sums lists the files below a directory with their checksums.
func sums(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(&all, "%s %08x\n", strings.TrimPrefix(path, dir), crc32.ChecksumIEEE(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// during calls do while a job reads epochs from the given number of gateways. It waits for the
// first epoch before the call, and for one more after it. It returns the number of epochs, after
// checking their bytes.
func (l *lab) during(t *testing.T, into string, homes int, do func()) int {
	t.Helper()
	name := l.job(t, epochs(into, homes))
	l.past(t, into, 0)
	do()
	l.past(t, into, l.count(into)+1)
	put(t, filepath.Join(l.dir, into, "stop"), "")
	l.finish(t, name)
	return l.right(t, into, homes)
}

// count returns the number of epochs that a job has read.
func (l *lab) count(into string) (n int) {
	text, err := os.ReadFile(filepath.Join(l.dir, into, "count"))
	if err == nil {
		_, _ = fmt.Sscan(string(text), &n)
	}
	return n
}

func (l *lab) past(t *testing.T, into string, epoch int) {
	t.Helper()
	until(t, into, func(context.Context) error {
		if n := l.count(into); n <= epoch {
			return fmt.Errorf("%d epochs are read", n)
		}
		return nil
	})
}
