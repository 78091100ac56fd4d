//go:build linux

package kubernetes_test

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// readBySocket installs a gateway with a socket in a directory of its node, and reads through it in
// a pod. Without a token it receives nothing; with a token it receives all samples in shared
// memory.
func readBySocket(t *testing.T, l *lab) {
	dir, token := t.TempDir(), "mr_"+(rand.Text() + rand.Text())[:43]
	if err := os.Chown(dir, 65532, 65532); err != nil {
		t.Fatal(err)
	}
	l.kubectl(t, "", "create", "namespace", "local")
	l.kubectl(t, "", "-n", "local", "create", "secret", "generic", "bucket", "--from-literal", "AWS_ACCESS_KEY_ID="+l.store.Setting(t, "AWS_ACCESS_KEY_ID"),
		"--from-literal", "AWS_SECRET_ACCESS_KEY="+l.store.Setting(t, "AWS_SECRET_ACCESS_KEY"))
	access := fmt.Sprintf(`access={"tokens":[{"name":"trainer","sha256":"%x"}],"grants":[{"who":["token:trainer","uid:0","uid:65532"],"datasets":["*"],"rights":["read"]}]}`,
		sha256.Sum256([]byte(token)))
	if out, err := l.tool(t, "helm", "", "install", "neighbour", chart, "--namespace", "local", "--set-json", access,
		"--set-json", fmt.Sprintf(`datasets=[{"name":%q,"url":"s3://%s/%s?endpoint=http://minio.jobs.svc:9000&region=us-east-1"}]`, dataset, harness.Bucket, dataset),
		"--set-json", `nodeSelector={"kubernetes.io/hostname":"node-a"}`, // all machines of this test share one file system
		"--set", "mode=daemonset,socket.hostPath="+dir+",s3.secret=bucket,cacheSize=256Mi"); err != nil {
		t.Fatal(err, out)
	}
	l.kubectl(t, "", "-n", "local", "rollout", "status", "daemonset/neighbour", "--timeout", "1m")
	l.kubectl(t, "", "-n", "jobs", "create", "secret", "generic", "trainer-token", "--from-literal", "token="+token)
	l.kubectl(t, fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: neighbour, namespace: jobs}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      nodeSelector: {kubernetes.io/hostname: node-a}
      containers:
        - name: reader
          image: reader:1
          command: [/bin/bash, -euo, pipefail, -c]
          args:
            - |
              env -u MILLRACE_TOKEN_FILE /millrace fetch unix:/run/millrace/socket > /tmp/said 2>&1 && exit 1
              cat /tmp/said
              grep -qE '401|credentials' /tmp/said
              "$PYTHON" - <<'END'
              import millrace
              with millrace.Client("unix:/run/millrace/socket") as data:
                  print("read", sum(len(batch) for batch in data.epoch(0, global_batch_size=64)), data.describe()["transport"])
              END
          env: [{name: MILLRACE_TOKEN_FILE, value: /etc/millrace-token/token}]
          volumeMounts:
            - {name: gateway, mountPath: /run/millrace, readOnly: true}
            - {name: token, mountPath: /etc/millrace-token, readOnly: true}
      volumes:
        - {name: gateway, hostPath: {path: %s, type: Directory}}
        - {name: token, secret: {secretName: trainer-token}}
`, dir), "apply", "-f", "-")
	if log := l.finish(t, "neighbour"); !strings.Contains(log, "read 2048 shared memory") {
		t.Errorf("got %s, want 2048 samples in shared memory", log)
	}
}
