//go:build linux

package kubernetes_test

// The parts of objects that a kubelet uses. Fields have the same names as in the API, where they
// begin with a lower-case letter.

type meta struct {
	Name, Namespace, UID, ResourceVersion string
	Labels, Annotations                   map[string]string
	DeletionTimestamp                     string
	DeletionGracePeriodSeconds            int64
}

type pod struct {
	Metadata meta
	Spec     struct {
		NodeName, Hostname, RestartPolicy, ServiceAccountName string
		InitContainers, Containers                            []podContainer
		Volumes                                               []volume
		SecurityContext                                       security
	}
	Status struct{ Phase string }
}

type security struct {
	RunAsUser, RunAsGroup, FSGroup *int
	ReadOnlyRootFilesystem         bool
}

type podContainer struct {
	Name, Image, WorkingDir string
	Command, Args           []string
	Env                     []struct {
		Name, Value string
		ValueFrom   *source
	}
	EnvFrom []struct {
		Prefix                  string
		SecretRef, ConfigMapRef *reference
	}
	Ports []struct {
		Name          string
		ContainerPort int
	}
	VolumeMounts []struct {
		Name, MountPath, SubPath string
		ReadOnly                 bool
	}
	StartupProbe, LivenessProbe, ReadinessProbe *probe
	Lifecycle                                   struct{ PreStop *handler }
	SecurityContext                             security
}

// source refers to the value of a variable.
type source struct {
	FieldRef                      *struct{ FieldPath string }
	SecretKeyRef, ConfigMapKeyRef *keyOf
}

type reference struct {
	Name     string
	Optional bool
}

type keyOf struct {
	Name, Key string
	Optional  bool
}

type volume struct {
	Name                  string
	EmptyDir              *struct{}
	HostPath              *struct{ Path string }
	ConfigMap             *files
	Secret                *files
	PersistentVolumeClaim *struct{ ClaimName string }
	Projected             *struct {
		DefaultMode *uint32
		Sources     []struct {
			ConfigMap, Secret   *files
			ServiceAccountToken *struct{ Path string }
			DownwardAPI         *struct{}
		}
	}
}

// files selects entries of a ConfigMap or Secret. The API calls the object's name differently for
// each kind.
type files struct {
	Name, SecretName string
	Optional         bool
	DefaultMode      *uint32
	Items            []struct {
		Key, Path string
	}
}

type handler struct {
	HTTPGet *struct {
		Path, Scheme string
		Port         any // a number or a name
	}
	Exec  *struct{ Command []string }
	Sleep *struct{ Seconds int64 }
}

type probe struct {
	handler
	PeriodSeconds, TimeoutSeconds, InitialDelaySeconds, FailureThreshold, SuccessThreshold int
}
