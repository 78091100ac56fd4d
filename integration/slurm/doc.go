// Package slurm runs the scripts of deploy/slurm under Slurm itself, which tools/slurm.sh installs. A machine of the cluster is
// slurmd in namespaces of its own: a network with an address on an island of integration/harness, a host name, processes that die
// with it. All machines see the same files, as those of a real cluster do. newLab starts it; lab.submit and lab.ended are all that
// a test of another script needs.
package slurm
