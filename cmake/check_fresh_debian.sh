#!/usr/bin/env bash
# Shows that the two commands of README work on a machine that has nothing: makes a bare Debian 12 in a temporary folder
# with debootstrap, copies the checkout into it, and runs `bash cmake/bootstrap.sh demo` and `test` there, twice each.
#
#   sudo bash cmake/check_fresh_debian.sh [COMMAND...]       default: demo test
#
# Needs root and debootstrap, and takes as long as the two commands. apt and pip reach their registries in there as they
# do out here: mirror, proxy, index and certificates are taken from this machine's configuration. What the chroot mounts
# lives in a mount namespace of its own and is gone when it ends.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[[ $(id -u) == 0 ]] || { echo 'check_fresh_debian.sh: needs root' >&2; exit 1; }
command -v debootstrap >/dev/null || { echo 'check_fresh_debian.sh: needs debootstrap' >&2; exit 1; }
commands=("$@")
[[ $# -gt 0 ]] || commands=(demo test)

root=$(mktemp -d)
chmod 755 "$root"
trap 'rm -rf --one-file-system "$root"' EXIT

# ---- a bare Debian 12 --------------------------------------------------------------------------------------------------

# shellcheck disable=SC2016
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' 'Component: main' | sed -n 1p)
proxy=$(apt-config dump --format '%v%n' Acquire::http::Proxy)
[[ -z $proxy ]] || export http_proxy=$proxy
debootstrap --variant=minbase bookworm "$root" ${mirror:+"$mirror"} >"$root.log" || { tail "$root.log"; exit 1; }
rm -f "$root.log"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
[[ -z $proxy ]] || printf 'Acquire::http::Proxy "%s";\n' "$proxy" >"$root/etc/apt/apt.conf.d/proxy"
printf '== a bare Debian %s: %d packages\n' "$(cat "$root/etc/debian_version")" "$(grep -c '^Package:' "$root/var/lib/dpkg/status")"

# ---- the checkout, and how pip is reached ------------------------------------------------------------------------------

mkdir -p "$root/root/attensor"
git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- | tar --extract -C "$root/root/attensor"

settings=(HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin)
pip_setting() { python3 -m pip config get "$1" 2>/dev/null | tr -d "'"; }
index=${PIP_INDEX_URL:-$(pip_setting global.index-url || true)}
certificates=${PIP_CERT:-$(pip_setting global.cert || true)}
[[ -z $index ]] || settings+=(PIP_INDEX_URL="$index")
if [[ -n $certificates ]]; then
  cp "$certificates" "$root/root/pip-certificates.crt"
  settings+=(PIP_CERT=/root/pip-certificates.crt)
fi
for name in http_proxy https_proxy no_proxy; do
  [[ -z ${!name-} ]] || settings+=("$name=${!name}")
done

# ---- the commands, twice: the second time there is nothing to do ---------------------------------------------------------

inside() {
  # shellcheck disable=SC2016
  unshare --mount bash -c 'mount -t proc proc "$1/proc" && mount -t devpts devpts "$1/dev/pts" && exec chroot "$@"' \
    inside "$root" /usr/bin/env -i "${settings[@]}" bash -c "cd /root/attensor && exec bash cmake/bootstrap.sh $1" </dev/null
}
summary=()
for command in "${commands[@]}"; do
  for time in first again; do
    start=$SECONDS
    inside "$command"
    summary+=("$(printf '== bootstrap.sh %-5s %-5s  %4d s' "$command" "$time" $((SECONDS - start)))")
  done
done
printf '%s\n' "${summary[@]}"
