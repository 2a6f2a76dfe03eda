#!/bin/sh
# Build KEDA's operator and adapter once and print the folder that holds them, its custom resource definitions beside
# them. Twelve minutes on two cores; cached outside the clone by the module files. OPSCONSOLE_KEDA names a ready folder:
# operator, adapter and crd/*.yaml.
#   build.sh          build what is missing, print the folder
#   build.sh --where  print the folder, whether or not it is there
set -eu
cd "$(dirname "$0")"

if [ -n "${OPSCONSOLE_KEDA:-}" ]; then
    echo "$OPSCONSOLE_KEDA"
    exit 0
fi
key=$(cat go.mod go.sum build.sh | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/opsconsole/keda
folder=$cache/$key
if [ "${1:-}" = --where ] || [ -x "$folder/adapter" ]; then
    echo "$folder"
    exit 0
fi
command -v go >/dev/null || { echo "Go is not installed: the tests with KEDA will skip themselves." >&2; exit 3; }

mkdir -p "$cache"
exec 9>"$cache/lock"
command -v flock >/dev/null && flock 9
[ -x "$folder/adapter" ] && { echo "$folder"; exit 0; }
work=$(mktemp -d "$cache/building.XXXXXX")
trap 'rm -rf "$work"' EXIT
version=$(go list -m -f '{{.Version}}' github.com/kedacore/keda/v2)
echo "Building KEDA $version; twelve minutes the first time." >&2
CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$work/" \
    github.com/kedacore/keda/v2/cmd/operator github.com/kedacore/keda/v2/cmd/adapter >&2
mkdir "$work/crd"  # files of the module cache are read-only, and so would be their copies
install -m 644 "$(go list -m -f '{{.Dir}}' github.com/kedacore/keda/v2)"/config/crd/bases/*.yaml "$work/crd"
chmod 755 "$work"
mv -T "$work" "$folder"
echo "$folder"
