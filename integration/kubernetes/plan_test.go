//go:build linux

package kubernetes_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// plan returns a container of the pod as it must run: its root, user, command and environment.
func (s *sandbox) plan(ctx context.Context, spec *podContainer) (*container, error) {
	name, _, _ := strings.Cut(spec.Image, ":")
	image, ok := s.kubelet.images[name]
	if !ok {
		return nil, fmt.Errorf("there is no image %s", spec.Image)
	}
	c := &container{
		Root: filepath.Join(s.dir, "root-"+spec.Name), Hostname: cmp.Or(s.pod.Spec.Hostname, s.pod.Metadata.Name), Dir: cmp.Or(spec.WorkingDir, "/"),
		ReadOnly: spec.SecurityContext.ReadOnlyRootFilesystem, Binds: slices.Clone(image.binds),
	}
	if err := os.MkdirAll(c.Root, 0o755); err != nil {
		return nil, err
	}
	s.user(c, spec)
	env, err := s.environment(ctx, spec, image)
	if err != nil {
		return nil, err
	}
	c.Env = env
	command := spec.Command
	if len(command) == 0 {
		command = image.entry
	}
	for _, word := range slices.Concat(command, spec.Args) {
		c.Command = append(c.Command, expand(word, env))
	}
	if err := s.system(c); err != nil {
		return nil, err
	}
	for _, m := range spec.VolumeMounts {
		dir, ok := s.dirs[m.Name]
		if !ok {
			return nil, fmt.Errorf("there is no volume %s", m.Name)
		}
		c.Binds = append(c.Binds, bind{filepath.Join(dir, m.SubPath), m.MountPath, m.ReadOnly})
	}
	return c, nil
}

// user sets the user and groups of a container: the container's own, or the pod's, or root.
func (s *sandbox) user(c *container, spec *podContainer) {
	of := s.pod.Spec.SecurityContext
	root := new(int)
	c.UID = *cmp.Or(spec.SecurityContext.RunAsUser, of.RunAsUser, root)
	c.GID = *cmp.Or(spec.SecurityContext.RunAsGroup, of.RunAsGroup, root)
	if of.FSGroup != nil {
		c.Groups = []int{*of.FSGroup}
	}
}

// environment returns the environment variables of a container.
func (s *sandbox) environment(ctx context.Context, spec *podContainer, image image) ([]string, error) {
	env := append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOSTNAME=" + s.pod.Metadata.Name}, image.env...)
	namespace := s.pod.Metadata.Namespace
	for _, from := range spec.EnvFrom {
		for kind, ref := range map[string]*reference{"secrets": from.SecretRef, "configmaps": from.ConfigMapRef} {
			if ref == nil {
				continue
			}
			all, err := s.kubelet.cluster.entries(ctx, namespace, kind, ref.Name, ref.Optional)
			if err != nil {
				return nil, err
			}
			for _, name := range slices.Sorted(maps.Keys(all)) {
				env = append(env, from.Prefix+name+"="+string(all[name]))
			}
		}
	}
	for _, v := range spec.Env {
		value := expand(v.Value, env)
		if from := v.ValueFrom; from != nil {
			var err error
			if value, err = s.value(ctx, from); err != nil {
				return nil, fmt.Errorf("variable %s: %w", v.Name, err)
			}
		}
		env = append(env, v.Name+"="+value)
	}
	return env, nil
}

// value returns the value of a variable that refers to another object.
func (s *sandbox) value(ctx context.Context, from *source) (string, error) {
	if from.FieldRef != nil {
		return s.field(from.FieldRef.FieldPath)
	}
	for kind, key := range map[string]*keyOf{"secrets": from.SecretKeyRef, "configmaps": from.ConfigMapKeyRef} {
		if key == nil {
			continue
		}
		all, err := s.kubelet.cluster.entries(ctx, s.pod.Metadata.Namespace, kind, key.Name, key.Optional)
		if err != nil {
			return "", err
		}
		value, ok := all[key.Key]
		if !ok && !key.Optional {
			return "", fmt.Errorf("%s %s has no key %s", kind, key.Name, key.Key)
		}
		return string(value), nil
	}
	return "", fmt.Errorf("this kubelet does not know where from")
}

// field returns a field of the pod, by its path.
func (s *sandbox) field(path string) (string, error) {
	m := s.pod.Metadata
	if name, ok := strings.CutPrefix(path, "metadata.labels['"); ok {
		return m.Labels[strings.TrimSuffix(name, "']")], nil
	}
	if name, ok := strings.CutPrefix(path, "metadata.annotations['"); ok {
		return m.Annotations[strings.TrimSuffix(name, "']")], nil
	}
	known := map[string]string{
		"metadata.name": m.Name, "metadata.namespace": m.Namespace, "metadata.uid": m.UID, "spec.nodeName": s.pod.Spec.NodeName,
		"status.podIP": s.at.IP, "status.podIPs": s.at.IP, "status.hostIP": s.kubelet.cluster.control.IP,
	}
	value, ok := known[path]
	if !ok {
		return "", fmt.Errorf("this kubelet does not know the field %s", path)
	}
	return value, nil
}

var variable = regexp.MustCompile(`\$\([A-Za-z_][A-Za-z0-9_]*\)`)

// expand replaces $(NAME) by the value of the variable, if it is defined.
func expand(text string, env []string) string {
	return variable.ReplaceAllStringFunc(text, func(ref string) string {
		for _, pair := range slices.Backward(env) {
			if value, ok := strings.CutPrefix(pair, ref[2:len(ref)-1]+"="); ok {
				return value
			}
		}
		return ref
	})
}

// system adds the parts that all containers have: devices, and the files with host names.
func (s *sandbox) system(c *container) error {
	domain := s.pod.Metadata.Namespace + ".svc.cluster.local"
	texts := map[string]string{
		"resolv.conf": fmt.Sprintf("nameserver %s\nsearch %s svc.cluster.local cluster.local\noptions ndots:5\n", s.kubelet.cluster.control.IP, domain),
		"hosts":       fmt.Sprintf("127.0.0.1 localhost\n%s %s\n", s.at.IP, c.Hostname),
		"hostname":    c.Hostname + "\n",
	}
	for name, text := range texts {
		file := filepath.Join(s.dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
		c.Binds = append(c.Binds, bind{From: file, To: "/etc/" + name})
	}
	for _, device := range []string{"null", "zero", "random", "urandom"} {
		c.Binds = append(c.Binds, bind{From: "/dev/" + device, To: "/dev/" + device})
	}
	return nil
}
