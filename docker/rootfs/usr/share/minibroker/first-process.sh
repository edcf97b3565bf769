# Each bash of the container reads this file first (BASH_ENV). It matters to the container's first process only.
#
# The kernel drops signals that the first process does not handle, and a shell passes none on. So this one runs its
# command in a child, passes SIGTERM on to all processes, and ends once they have ended.
if [ $$ = 1 ]; then
  set +e
  stopping=
  trap 'stopping=yes' TERM INT
  mapfile -d '' -t words </proc/1/cmdline
  # bash would let a process in the background ignore Ctrl-C.
  (trap - INT QUIT && exec -a "${words[0]}" "$BASH" "${words[@]:1}") <&0 &
  [ "$stopping" ] || wait $!
  status=$?
  [ "$stopping" ] || exit $status
  # The engine goes on with health checks, so wait for the processes of now only. The first one is this one.
  processes=(/proc/[0-9]*)
  processes=("${processes[@]#/proc/}")
  kill -TERM -1
  while kill -0 "${processes[@]:1}" 2>/dev/null; do sleep 0.05; done
  exit 0
fi
