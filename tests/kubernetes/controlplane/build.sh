#!/bin/sh
# Build the control plane once and print the folder that holds it. Ten minutes on two cores; after that it is cached
# outside the clone, keyed by the module files and this recipe. OPSCONSOLE_CONTROLPLANE names ready binaries instead:
# a folder with etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok.
#   build.sh          build what is missing, print the folder
#   build.sh --where  print the folder, whether or not it is there
set -eu
cd "$(dirname "$0")"

if [ -n "${OPSCONSOLE_CONTROLPLANE:-}" ]; then
    echo "$OPSCONSOLE_CONTROLPLANE"
    exit 0
fi
key=$(cat go.mod go.sum main.go build.sh | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/opsconsole/controlplane
folder=$cache/$key
if [ "${1:-}" = --where ] || [ -x "$folder/kwok" ]; then
    echo "$folder"
    exit 0
fi
command -v go >/dev/null || { echo "Go is not installed: the Kubernetes suite will skip itself." >&2; exit 3; }

mkdir -p "$cache"
exec 9>"$cache/lock"  # two builds at once would only slow each other down
command -v flock >/dev/null && flock 9
[ -x "$folder/kwok" ] && { echo "$folder"; exit 0; }
work=$(mktemp -d "$cache/building.XXXXXX")
trap 'rm -rf "$work"' EXIT
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
stamp="-X k8s.io/component-base/version.gitVersion=$version"
echo "Building Kubernetes $version and kwok; ten minutes the first time." >&2
CGO_ENABLED=0 go build -trimpath -ldflags "-s -w $stamp" -o "$work/" . sigs.k8s.io/kwok/cmd/kwok >&2
for name in etcd kube-apiserver kube-controller-manager kube-scheduler; do
    ln -s controlplane "$work/$name"
done
chmod 755 "$work"
mv -T "$work" "$folder"
echo "$folder"
