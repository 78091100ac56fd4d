//go:build linux

package kubernetes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// report sends the pod's status to the API server if it has changed.
func (s *sandbox) report(ctx context.Context, phase string) {
	now := time.Now().UTC().Format(time.RFC3339)
	ready := phase == "Running"
	var containers []map[string]any
	for _, c := range s.containers {
		ready = ready && c.ready
		containers = append(containers, c.status())
	}
	condition := func(kind string, is bool) map[string]string {
		return map[string]string{"type": kind, "status": map[bool]string{true: "True", false: "False"}[is]}
	}
	conditions := []map[string]string{
		condition("Initialized", true), condition("ContainersReady", ready), condition("Ready", ready), condition("PodReadyToStartContainers", true),
	}
	status := map[string]any{
		"phase": phase, "podIP": s.at.IP, "podIPs": []map[string]string{{"ip": s.at.IP}}, "hostIP": s.kubelet.cluster.control.IP,
		"conditions": conditions, "containerStatuses": containers,
	}
	text, err := json.Marshal(status)
	if err != nil || string(text) == s.said {
		return
	}
	status["startTime"] = now
	for _, c := range conditions {
		c["lastTransitionTime"] = now
	}
	patch := map[string]any{"metadata": map[string]string{"uid": s.pod.Metadata.UID}, "status": status}
	if err := s.kubelet.cluster.call(ctx, http.MethodPatch, s.path()+"/status", asMerge, patch, nil); err != nil {
		s.note("report: " + err.Error())
		return
	}
	s.said = string(text)
}

// status returns the container's status in the form of the API.
func (c *running) status() map[string]any {
	state := map[string]any{"waiting": map[string]string{"reason": "ContainerCreating"}}
	began := c.began.UTC().Format(time.RFC3339)
	if c.process != nil {
		state = map[string]any{"running": map[string]string{"startedAt": began}}
		if c.process.ended() {
			code := c.process.exitCode()
			reason := map[bool]string{true: "Completed", false: "Error"}[code == 0]
			state = map[string]any{"terminated": map[string]any{"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": began}}
		}
	}
	return map[string]any{
		"name": c.spec.Name, "image": c.spec.Image, "imageID": c.spec.Image, "containerID": fmt.Sprintf("process://%s-%d", c.spec.Name, c.restarts),
		"ready": c.ready, "started": c.started || c.spec.StartupProbe == nil, "restartCount": c.restarts, "state": state,
	}
}
