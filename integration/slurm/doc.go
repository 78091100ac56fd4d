// Package slurm runs the scripts of deploy/slurm under Slurm itself, which tools/slurm.sh installs.
// A machine of the cluster is a slurmd in separate namespaces: a network with an address on an
// island of integration/harness, a host name, and processes that end with it. All machines see the
// same files, as in a real cluster. newLab starts the cluster. Tests of other scripts only need
// lab.submit and lab.ended.
package slurm
