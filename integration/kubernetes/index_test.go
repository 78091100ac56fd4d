//go:build linux

package kubernetes_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/internal/objstore"
)

const (
	shards = 1000
	heldAt = "/pictures/shard-00500.tar" // in the middle of part 4 of 16
)

// indexing runs kubectl in the namespace of the indexing Jobs, and returns its output.
func (l *lab) indexing(t *testing.T, args ...string) string {
	t.Helper()
	return l.kubectl(t, "", append([]string{"--namespace", "parts"}, args...)...)
}

// indexInParts runs the page's commands. A Job has 16 parts, and one part is killed in the middle
// of its shards. A join before the part is complete names the part. After another pod has completed
// it, a join has the same result as indexing on one machine.
func indexInParts(t *testing.T, l *lab) {
	page := pageCommands(t, "Index on many machines", 5)
	enter := func(commands []string) {
		for _, command := range commands {
			l.indexing(t, typed(command)[1:]...)
		}
	}
	bucket := l.store.Objects(t)
	harness.PutShards(t, bucket, "pictures/", shards)
	l.kubectl(t, "", "create", "namespace", "parts")
	l.indexing(t, "create", "secret", "generic", "s3", "--from-literal", "AWS_ENDPOINT_URL_S3=http://minio.jobs.svc:9000", "--from-literal", "AWS_REGION=us-east-1",
		"--from-literal", "AWS_ACCESS_KEY_ID="+l.store.Setting(t, "AWS_ACCESS_KEY_ID"), "--from-literal", "AWS_SECRET_ACCESS_KEY="+l.store.Setting(t, "AWS_SECRET_ACCESS_KEY"))
	asked, release := l.reads.Hold(heldAt)
	began := time.Now()
	enter(page[:2])
	select {
	case <-asked:
	case <-time.After(time.Minute):
		t.Fatalf("nobody has read %s\n%s", heldAt, l.indexing(t, "get", "pods"))
	}
	l.killPart(t, 4)
	l.indexing(t, "wait", "--for=jsonpath={.status.succeeded}=15", "--timeout=1m", "job/index-parts")
	l.indexing(t, "apply", "-f", "../../deploy/kubernetes/index.yaml")
	until(t, "the join without a part", func(context.Context) error {
		said, err := l.tool(t, "kubectl", "", "--namespace", "parts", "logs", "--selector", "batch.kubernetes.io/job-name=index", "--tail=-1")
		if err != nil {
			return err // its container does not run yet
		}
		for _, want := range []string{"63 of 1,000 shards (", ") are missing, unfinished parts: 1 of 16.", "index s3://train/pictures --part 4/16  # 63 shards"} {
			if !strings.Contains(said, want) {
				return fmt.Errorf("got %s, want %s", said, want)
			}
		}
		return nil
	})
	l.indexing(t, "delete", "--wait", "job/index")
	release()
	enter(page[2:])
	took := time.Since(began)
	if said := l.indexing(t, "logs", "job/index"); !strings.Contains(said, "read 0 B, reused 1,000 shards") {
		t.Errorf("the join: got %s, want no shard read", said)
	}
	got := harness.TakeIndex(t, bucket, "pictures/")
	harness.MustRun(t, l.store, "index", l.store.Dataset("pictures"))
	if want := harness.TakeIndex(t, bucket, "pictures/"); len(want) == 0 || !maps.Equal(got, want) {
		t.Errorf("got %q beside the shards, want %q with the same bytes", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	t.Logf("figure: %d shards indexed by a Job of 16 parts, one of them killed and done by another pod, and joined twice, in %.1f s", shards, took.Seconds())
	l.kubectl(t, "", "delete", "namespace", "parts", "--wait=false")
	if err := bucket.List(t.Context(), "pictures/", func(o objstore.Object) error { return bucket.Delete(t.Context(), o.Key) }); err != nil {
		t.Fatal(err)
	}
}

// killPart kills the processes of the pod that runs a part.
func (l *lab) killPart(t *testing.T, part int) {
	t.Helper()
	name := strings.TrimSpace(l.indexing(t, "get", "pods", "--selector", fmt.Sprintf("batch.kubernetes.io/job-completion-index=%d", part), "--output", "jsonpath={.items[*].metadata.name}"))
	s := l.kubelet.find("parts", name)
	if s == nil {
		t.Fatalf("find the pod of part %d: got %q", part, name)
	}
	s.kill()
	until(t, name, func(context.Context) error {
		if phase := l.indexing(t, "get", "pod", name, "--output", "jsonpath={.status.phase}"); phase != "Failed" {
			return fmt.Errorf("got %s, want it Failed", phase)
		}
		return nil
	})
}
