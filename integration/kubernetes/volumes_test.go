//go:build linux

package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// content is the content of a volume with files: the bytes of each file, by path.
type content map[string][]byte

// entries reads a ConfigMap or a Secret. It may be missing if optional is set.
func (c *cluster) entries(ctx context.Context, namespace, kind, name string, optional bool) (content, error) {
	var o struct {
		Data       map[string]string
		BinaryData content
	}
	var secret struct{ Data content }
	path := fmt.Sprintf("/api/v1/namespaces/%s/%s/%s", namespace, kind, name)
	var err error
	if kind == "secrets" {
		err = c.call(ctx, http.MethodGet, path, "", nil, &secret)
	} else {
		err = c.call(ctx, http.MethodGet, path, "", nil, &o)
	}
	if err != nil && optional && missing(err) {
		return nil, nil
	}
	all := content{}
	maps.Copy(all, secret.Data)
	maps.Copy(all, o.BinaryData)
	for k, v := range o.Data {
		all[k] = []byte(v)
	}
	return all, err
}

// add adds the entries that files selects to the content.
func (v content) add(ctx context.Context, c *cluster, namespace, kind string, f *files) error {
	if f == nil {
		return nil
	}
	all, err := c.entries(ctx, namespace, kind, f.Name+f.SecretName, f.Optional)
	if err != nil {
		return err
	}
	if len(f.Items) == 0 {
		maps.Copy(v, all)
		return nil
	}
	for _, item := range f.Items {
		data, ok := all[item.Key]
		if !ok && !f.Optional {
			return fmt.Errorf("%s %s has no key %s", kind, f.Name+f.SecretName, item.Key)
		}
		v[item.Path] = data
	}
	return nil
}

// content returns the files of a volume and their mode, or no files if the volume is not made from
// objects of the API.
func (s *sandbox) content(ctx context.Context, v *volume) (all content, mode os.FileMode, err error) {
	all, mode = content{}, 0o644
	chosen := func(m *uint32) {
		if m != nil {
			mode = os.FileMode(*m)
		}
	}
	namespace := s.pod.Metadata.Namespace
	switch {
	case v.ConfigMap != nil:
		chosen(v.ConfigMap.DefaultMode)
		err = all.add(ctx, s.kubelet.cluster, namespace, "configmaps", v.ConfigMap)
	case v.Secret != nil:
		chosen(v.Secret.DefaultMode)
		err = all.add(ctx, s.kubelet.cluster, namespace, "secrets", v.Secret)
	case v.Projected != nil:
		chosen(v.Projected.DefaultMode)
		for _, source := range v.Projected.Sources {
			if err = all.add(ctx, s.kubelet.cluster, namespace, "configmaps", source.ConfigMap); err == nil {
				err = all.add(ctx, s.kubelet.cluster, namespace, "secrets", source.Secret)
			}
			if err != nil {
				break
			}
		}
	default:
		return nil, 0, nil
	}
	return all, mode, err
}

// mountVolumes creates the directory of each volume, and writes the files of the volumes that have
// some.
func (s *sandbox) mountVolumes(ctx context.Context) error {
	for i := range s.pod.Spec.Volumes {
		v := &s.pod.Spec.Volumes[i]
		dir, err := s.directory(ctx, v)
		if err != nil {
			return fmt.Errorf("volume %s: %w", v.Name, err)
		}
		s.dirs[v.Name] = dir
	}
	return s.refreshVolumes(ctx)
}

func (s *sandbox) directory(ctx context.Context, v *volume) (string, error) {
	if v.HostPath != nil {
		return v.HostPath.Path, nil
	}
	dir := filepath.Join(s.dir, "volumes", v.Name)
	if v.PersistentVolumeClaim != nil {
		var claim struct{ Spec struct{ VolumeName string } }
		var bound struct {
			Spec struct{ HostPath struct{ Path string } }
		}
		err := s.kubelet.cluster.call(ctx, http.MethodGet, "/api/v1/namespaces/"+s.pod.Metadata.Namespace+"/persistentvolumeclaims/"+v.PersistentVolumeClaim.ClaimName, "", nil, &claim)
		if err == nil {
			err = s.kubelet.cluster.call(ctx, http.MethodGet, "/api/v1/persistentvolumes/"+claim.Spec.VolumeName, "", nil, &bound)
		}
		if err != nil {
			return "", err
		}
		dir = bound.Spec.HostPath.Path
	}
	mode := os.FileMode(0o755)
	if v.EmptyDir != nil {
		mode = 0o777
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return "", err
	}
	if group := s.pod.Spec.SecurityContext.FSGroup; group != nil && (v.EmptyDir != nil || v.PersistentVolumeClaim != nil) {
		if err := os.Chown(dir, 0, *group); err != nil {
			return "", err
		}
		mode |= 0o070 | os.ModeSetgid
	}
	return dir, os.Chmod(dir, mode)
}

// refreshVolumes updates volumes whose files have changed. It replaces all files of a volume at
// once by renaming a link, like a kubelet.
func (s *sandbox) refreshVolumes(ctx context.Context) error {
	for i := range s.pod.Spec.Volumes {
		v := &s.pod.Spec.Volumes[i]
		all, mode, err := s.content(ctx, v)
		if err != nil {
			return fmt.Errorf("volume %s: %w", v.Name, err)
		}
		if all == nil || s.written[v.Name] != nil && maps.EqualFunc(all, s.written[v.Name], slices.Equal) {
			continue
		}
		if err := s.write(s.dirs[v.Name], all, mode); err != nil {
			return fmt.Errorf("volume %s: %w", v.Name, err)
		}
		s.written[v.Name] = all
	}
	return nil
}

func (s *sandbox) write(dir string, all content, mode os.FileMode) error {
	s.versions++
	version := ".." + strconv.Itoa(s.versions)
	for path, data := range all {
		file := filepath.Join(dir, version, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			return err
		}
		if group := s.pod.Spec.SecurityContext.FSGroup; group != nil {
			if err := os.Chown(file, 0, *group); err != nil {
				return err
			}
			mode |= 0o040
		}
		if err := os.Chmod(file, mode); err != nil {
			return err
		}
		first, _, _ := strings.Cut(path, "/")
		if err := os.Symlink("..data/"+first, filepath.Join(dir, first)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	next := filepath.Join(dir, "..next")
	if err := os.Symlink(version, next); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(dir, "..data"))
}
