#!/usr/bin/env bash
# Runs a container engine for the tests: Debian's Docker Engine with Compose and buildx. It takes root, and Linux.
#
#   tests/docker/engine.sh start|stop
#   tests/docker/engine.sh run COMMAND...
#
# The programs come from Debian's packages, once, by mmdebstrap. In a mount namespace of the engine they replace /usr and
# /etc of this machine; all other files have the same paths for the engine as for the tests. Containers publish their
# ports in the engine's network namespace only, where every port is free. `run` runs a command of this machine there.
#
# `start` prints "started", or nothing where an engine answers already (see DOCKER_HOST).
set -eu
cd "$(dirname "$0")/../.."
programs=${XDG_CACHE_HOME:-$HOME/.cache}/minibroker/engine-trixie
state=$PWD/build/engine
socket=$state/docker.sock
packages=docker.io,docker-cli,docker-compose,docker-buildx,iptables,iproute2,ca-certificates,procps,kmod

fail() {
  echo "tests/docker/engine.sh: $1" >&2
  exit 1
}

runs() { [ -e "$state/pid" ] && kill -0 "$(cat "$state/pid")" 2>/dev/null; }

# Runs a command in the engine's namespaces: `enter --net`, or `enter --net --mount` for its own programs.
enter() { nsenter --target "$(cat "$state/pid")" "$@"; }

answers() { enter --net --mount docker --host "unix://$socket" version >/dev/null 2>&1; }

make_programs() {
  [ ! -e "$programs/done" ] || return 0
  command -v mmdebstrap >/dev/null || fail "mmdebstrap is missing; Debian has it as a package"
  mkdir -p "$programs"
  exec 9>"$programs/lock"
  flock 9 # Several checkouts can share the programs.
  [ ! -e "$programs/done" ] || return 0
  rm -rf "$programs/root"
  mmdebstrap --quiet --variant=minbase --include="$packages" trixie "$programs/root" >&2
  touch "$programs/done"
}

start() {
  ! docker version >/dev/null 2>&1 || return 0
  if runs && answers; then return 0; fi
  [ "$(id -u)" = 0 ] || fail "no engine answers, and only root can start one"
  [ -L /lib ] || fail "no engine answers, and none can start: /lib is not a link to /usr/lib"
  make_programs
  mkdir -p "$state/data"
  rm -f "$socket"
  # shellcheck disable=SC2016 # The inner shell expands its own arguments.
  setsid unshare --net --mount --propagation private bash -c '
    set -e
    mount --bind "$1/usr" /usr && mount --bind "$1/etc" /etc && mount -t tmpfs tmpfs /run
    ip link set lo up
    exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin HOME=/root dockerd --host "unix://$2/docker.sock" \
      --data-root "$2/data" --pidfile /run/dockerd.pid --cgroup-parent minibroker-engine
  ' engine "$programs/root" "$state" 9>&- </dev/null >"$state/log" 2>&1 &
  echo $! >"$state/pid"
  for _ in $(seq 300); do
    if answers; then
      echo started
      return 0
    fi
    runs || break
    sleep 0.1
  done
  tail -n 5 "$state/log" >&2
  stop
  fail "the engine does not start (see above)"
}

stop() {
  runs || return 0
  if answers; then
    docker="enter --net --mount docker --host unix://$socket"
    for container in $($docker ps --all --quiet); do $docker rm --force "$container" >/dev/null; done
  fi
  kill "$(cat "$state/pid")"
  while runs; do sleep 0.1; done
  rm -rf "$state"
}

case ${1:-} in
start | stop) "$1" ;;
run)
  shift
  runs || fail "the engine does not run"
  exec nsenter --target "$(cat "$state/pid")" --net env DOCKER_HOST="unix://$socket" "$@"
  ;;
*)
  sed -n '2,/^set/{s/^# \?//p}' "$0" | sed '$d' >&2
  exit 2
  ;;
esac
