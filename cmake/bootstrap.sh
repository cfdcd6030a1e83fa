#!/usr/bin/env bash
# From a machine that has nothing to the library at work: see usage below.

set -euo pipefail
caller=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: bash cmake/bootstrap.sh COMMAND [OPTION...] [-- CMAKE_OPTION...]

commands
  demo             build the examples token_detection and digits, and run them
  test             build everything and run the whole test suite
  tools            only install what .ci/run needs

options
  --eigen fetch    Eigen 5.0.1 from PyPI, kept in build/deps; where that fails, the system's Eigen (default)
  --eigen system   the system's Eigen, 3.4 or newer
  --eigen DIR      your own Eigen; DIR contains Eigen/Core
  --compiler CXX   g++ 12, clang++ 16 or newer (default: $CXX, else the first that is found)
  --build-dir DIR  where to build (default: build/bootstrap)
  --jobs N         how much to build at once (default: a job for each core and 2 GiB of memory)
  --help           this text

On Debian and its relatives it installs with apt-get what is missing, as root or through sudo, and says what before it
does. It changes nothing that is installed already. On other systems it says what is missing.
TEXT
}

say() { printf '== %s\n' "$*"; }
die() { printf 'bootstrap.sh: %s\n' "$*" >&2; exit 1; }

# ---- what each need is called, the only place that knows ---------------------------------------------------------------

#   need      apt                          dnf                     pacman         brew              vcpkg
packages='
    compiler  g++                          gcc-c++                 gcc            llvm              -
    cmake     cmake                        cmake                   cmake          cmake             -
    ninja     ninja-build                  ninja-build             ninja          ninja             -
    pip       python3-pip                  python3-pip             python-pip     python            -
    eigen     libeigen3-dev                eigen3-devel            eigen          eigen             eigen3
    json      nlohmann-json3-dev           json-devel              nlohmann-json  nlohmann-json     nlohmann-json
    doctest   doctest-dev                  doctest-devel           doctest        doctest           doctest
    benchmark libbenchmark-dev             google-benchmark-devel  benchmark      google-benchmark  benchmark
    clang     clang-16,libclang-rt-16-dev  clang                   clang          llvm              -
    format    clang-format-16              clang-tools-extra       clang          clang-format      -
'
eigen_wheel='eigency==5.0.1.1 --hash=sha256:5a34a04a6039e067b7fe5ed4b876522fdbab81383b2f9286e94e45e15ae50676'
eigen_fetched="$PWD/build/deps/eigen-5.0.1"
eigen_failed="$PWD/build/deps/eigen-5.0.1.failed"

# The names of needs $2... for package manager $1.
package_names() {
  local column need
  case $1 in apt) column=2 ;; dnf) column=3 ;; pacman) column=4 ;; brew) column=5 ;; vcpkg) column=6 ;; esac
  shift
  for need in "$@"; do
    awk -v need="$need" -v column="$column" '$1 == need && $column != "-" { gsub(",", " ", $column); print $column }' \
      <<<"$packages"
  done | tr '\n' ' '
}

# ---- what is there already ---------------------------------------------------------------------------------------------

have_header() {
  local prefix prefixes=${CMAKE_PREFIX_PATH-}
  for prefix in /usr /usr/local /opt/homebrew /opt/local ${prefixes//:/ }; do
    [[ -e $prefix/include/$1 ]] && return
  done
  return 1
}

# C++20 as far as the library needs it: g++ 12, clang 16, Apple clang 15.
compiler_works() {
  command -v "$1" >/dev/null && "$1" -std=c++20 -x c++ -fsyntax-only - >/dev/null 2>&1 <<'TEXT'
#include <concepts>
#include <span>
#if defined(__apple_build_version__)
#define VERSION_WANTED (__clang_major__ >= 15)
#elif defined(__clang__)
#define VERSION_WANTED (__clang_major__ >= 16)
#else
#define VERSION_WANTED (__GNUC__ >= 12)
#endif
static_assert(VERSION_WANTED && std::integral<int>);
TEXT
}

# Sets `compiler`, unless an option has.
find_compiler() {
  local candidate
  [[ -z $compiler ]] || return 0
  for candidate in ${CXX:-} c++ g++ clang++ g++-{15,14,13,12} clang++-{21,20,19,18,17,16}; do
    if compiler_works "$candidate"; then
      compiler=$candidate
      return
    fi
  done
  return 1
}

cmake_works() {
  command -v cmake >/dev/null &&
    cmake --version | awk 'NR == 1 { split($3, v, "."); exit !(v[1] > 3 || (v[1] == 3 && v[2] >= 25)) }'
}

have() {
  case $1 in
    compiler) find_compiler ;;
    cmake) cmake_works ;;
    ninja) command -v ninja >/dev/null ;;
    pip) python3 -m pip --version >/dev/null 2>&1 ;;
    eigen) have_header eigen3/Eigen/Core ;;
    json) have_header nlohmann/json.hpp ;;
    doctest) have_header doctest/doctest.h ;;
    benchmark) have_header benchmark/benchmark.h ;;
    clang) command -v clang++-16 >/dev/null && compgen -G '/usr/lib/llvm-16/lib/clang/*/lib/linux/*tsan*' >/dev/null ;;
    format) command -v clang-format-16 >/dev/null ;;
  esac
}

# Sets `lacking` to those of the needs that are not there.
look_for() {
  local need
  lacking=()
  for need in "$@"; do have "$need" || lacking+=("$need"); done
}

# ---- installing --------------------------------------------------------------------------------------------------------

cannot_install() {
  local manager names
  printf 'bootstrap.sh: not found: %s. With one of these it will be:\n' "$*" >&2
  for manager in apt:'apt-get install' dnf:'dnf install' pacman:'pacman -S' brew:'brew install' vcpkg:'vcpkg install'; do
    names=$(package_names "${manager%%:*}" "$@")
    [[ -z $names ]] || printf '  %s %s\n' "${manager#*:}" "$names" >&2
  done
  printf '  On Windows, Debian in WSL is the shortest way; else Visual Studio 2022, with CMake, and vcpkg.\n' >&2
  exit 1
}

# Installs what the needs given are called, with apt-get. What is installed already stays as it is (--no-upgrade).
install_needs() {
  local names apt as_root=()
  command -v apt-get >/dev/null || cannot_install "$@"
  read -ra names <<<"$(package_names apt "$@")"
  say "Will install with apt-get: ${names[*]}, and what they depend on"
  if [[ $(id -u) != 0 ]]; then
    command -v sudo >/dev/null || die "neither root nor sudo; as root, run: apt-get install ${names[*]}"
    as_root=(sudo)
  fi
  apt=(${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
  "${apt[@]}" update
  "${apt[@]}" -y --no-install-recommends --no-upgrade install "${names[@]}" >/dev/null
}

# Eigen 5's headers lie, unmodified, in a wheel on PyPI. The same wheel serves every system: no code of it is run.
fetch_eigen() {
  local work
  mkdir -p build/deps
  work=$(mktemp -d build/deps/fetch.XXXXXX)
  printf '%s\n' "$eigen_wheel" >"$work/requirements.txt"
  if python3 -m pip --disable-pip-version-check download --quiet --retries 2 --dest "$work" \
      --no-deps --only-binary=:all: --platform manylinux2014_x86_64 --python-version 3.11 --implementation cp --abi cp311 \
      --require-hashes --requirement "$work/requirements.txt" &&
      python3 -m zipfile -e "$work"/eigency-*.whl "$work/wheel" &&
      mv "$work/wheel/eigency/eigen" "$eigen_fetched"; then
    rm -rf "$work" "$eigen_failed"
  else
    rm -rf "$work"
    touch "$eigen_failed"
    return 1
  fi
}

# ---- arguments ---------------------------------------------------------------------------------------------------------

# A path as seen from where the script was called.
from_caller() { [[ $1 == /* ]] && echo "$1" || echo "$caller/$1"; }

command='' eigen=fetch compiler='' build_dir=build/bootstrap jobs='' cmake_options=()
while [[ $# -gt 0 ]]; do
  case $1 in
    demo | test | tools) [[ -z $command ]] || die "one command at a time: $command or $1"; command=$1; shift ;;
    --eigen | --compiler | --build-dir | --jobs)
      [[ $# -ge 2 ]] || die "$1 needs a value; --help tells"
      case $1 in
        --eigen) eigen=$2; [[ $2 == fetch || $2 == system ]] || eigen=$(from_caller "$2") ;;
        --compiler) compiler=$2 ;;
        --build-dir) build_dir=$(from_caller "$2") ;;
        --jobs) jobs=$2 ;;
      esac
      shift 2 ;;
    --help | -h) usage; exit ;;
    --) shift; cmake_options=("$@"); break ;;
    *) die "unknown argument: $1; --help tells" ;;
  esac
done
[[ -n $command ]] || { usage >&2; exit 1; }
[[ -z $compiler ]] || compiler_works "$compiler" ||
  die "$compiler does not compile C++20 as it should; g++ 12 or clang++ 16 or newer is needed"
[[ $jobs =~ ^([1-9][0-9]*)?$ ]] || die "--jobs $jobs: a number, 1 or more, is needed"

if [[ -z $jobs ]]; then
  jobs=$(getconf _NPROCESSORS_ONLN)
  if [[ -r /proc/meminfo ]]; then
    fit=$(awk '/^MemTotal:/ { print int($2 / 2097152) }' /proc/meminfo)
    jobs=$((fit < 1 ? 1 : fit < jobs ? fit : jobs))
  fi
fi

case $command in
  demo) needs=(compiler cmake ninja json) ;;
  test) needs=(compiler cmake ninja json doctest) ;;
  tools) needs=(compiler cmake ninja json doctest benchmark eigen clang format) ;;
esac
case $eigen in
  fetch)
    if [[ -e $eigen_failed && $command != tools ]]; then
      say "Eigen 5 could not be fetched before, so it is the system's Eigen. To try again, delete ${eigen_failed#"$PWD/"}"
      eigen=system needs+=(eigen)
    elif [[ ! -e $eigen_fetched ]]; then
      needs+=(pip)
    fi ;;
  system) needs+=(eigen) ;;
  *)
    [[ -e $eigen/Eigen/Core ]] || die "--eigen $eigen: there is no $eigen/Eigen/Core" ;;
esac

# ---- say what is missing, then install it ------------------------------------------------------------------------------

look_for "${needs[@]}"
if [[ $eigen == fetch && ! -e $eigen_fetched ]]; then
  say "Will fetch with pip: ${eigen_wheel%% *}, for the headers of Eigen 5.0.1 in it, into ${eigen_fetched#"$PWD/"}"
fi
if [[ ${#lacking[@]} -gt 0 ]]; then
  install_needs "${lacking[@]}"
  look_for "${needs[@]}"
  [[ ${#lacking[@]} -eq 0 ]] || die "still not found, or too old in this system's packages: ${lacking[*]}"
fi
if [[ $eigen == fetch && ! -e $eigen_fetched ]] && ! fetch_eigen; then
  [[ $command != tools ]] || die 'Eigen 5 could not be fetched'
  say "Eigen 5 could not be fetched, so it is the system's Eigen"
  eigen=system
  have eigen || install_needs eigen
fi
[[ $command != tools ]] || exit 0

# ---- build and run -----------------------------------------------------------------------------------------------------

case $eigen in
  fetch) eigen_dir=$eigen_fetched eigen_text='Eigen 5.0.1' ;;
  system) eigen_dir='' eigen_text="the system's Eigen" ;;
  *) eigen_dir=$eigen eigen_text="the Eigen in $eigen" ;;
esac

configure() {
  say "Configuring $build_dir with $("$compiler" --version | sed -n 1p) and $eigen_text"
  cmake -S . -B "$build_dir" -G Ninja --log-level=NOTICE -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$compiler" \
    -DATTENSOR_EIGEN_DIR="$eigen_dir" -DATTENSOR_BUILD_EXAMPLES=ON -DATTENSOR_BUILD_BENCHMARKS=OFF \
    "$@" ${cmake_options[@]+"${cmake_options[@]}"}
}

build() {
  say "Building with $jobs jobs"
  cmake --build "$build_dir" --parallel "$jobs" "$@"
}

case $command in
  demo)
    configure -DATTENSOR_BUILD_TESTS=OFF
    build --target token_detection digits
    mkdir -p "$build_dir/demo"
    for example in token_detection digits; do
      say "$build_dir/bin/$example"
      (cd "$build_dir/demo" && ../bin/"$example")
    done
    say "What the examples wrote lies in $build_dir/demo" ;;
  test)
    configure -DATTENSOR_BUILD_TESTS=ON
    build
    progress=()
    [[ ! -t 1 ]] || progress=(--progress)
    say "Testing"
    ctest --test-dir "$build_dir" --parallel "$jobs" --output-on-failure --no-tests=error ${progress[@]+"${progress[@]}"} ;;
esac
