"""Programs by name: which ones are known, which start others, and which only talk."""

from __future__ import annotations

_KNOWN = """
actionlint act alembic ansible ansible-lint ansible-playbook apk apt apt-get aptitude autopep8 awk aws az babel bandit
bash bazel biome black bmake brew buf buildah bun bundle bundler bunx bzip cabal cargo ccache chmod chown clang
clang-format clang-tidy clippy cmake codecept composer conan conda coverage cpan ctest curl cypress dart dbt deno dig
django-admin docker docker-compose dotnet dpkg dune dvc elixir erlc esbuild eslint fd ffmpeg fish flake8 flask flutter
flyway fmt gcc gcloud gdb gem gh ghc git gitleaks glab go gofmt golangci-lint govulncheck gpg gradle gradlew grep gsutil
gunicorn gunzip gzip hadolint hatch helm heroku hexdump htop http httpie hyperfine iconv ifconfig iperf iptables isort
jasmine java javac jest jq julia jupyter just k9s karma kind kotlinc kubectl kustomize lcov ldd lighthouse
liquibase lldb locust ls lsof lua make markdownlint maturin maven mbsync meson mise mix mkdocs mocha mongo mongodump
mongosh msbuild mvn mvnw mypy mysql mysqldump mysqladmin nc ncat netcat netlify netstat newman next nginx ng ninja nix
nm nmap node nodemon nosetests npm npx nslookup nuget nx nyc objdump ocaml opam openssl oxlint parcel patch pdm perl
pg_dump pg_restore pgbench php phpstan phpunit ping pio pip pipenv pipx pkill playwright pnpm podman poetry powershell
pprof pre-commit prettier prisma prove psalm psql pulumi pwsh pylint pyright pytest python pyupgrade qemu rabbitmqctl
rails rake rebar redis-cli rg rollup rsync rspec rubocop ruby ruff rustc rustup rye sbt scala scons scp sed semgrep
serverless sh shellcheck skopeo snyk sops sox spack sphinx-build sqlfluff sqlite ss ssh ssh-keygen standard strace
stylelint sudo svn swift swiftc swiftlint syft systemctl tar tcpdump telnet terraform terragrunt tesseract tflint tilt
tmux tofu tox traceroute trivy ts-node tsc tsx turbo twine uglifyjs unittest unzip uv uvicorn uvx vagrant valgrind vault
vendor vercel virtualenv vite vitest vue-cli-service vulture webpack wget wrangler xcodebuild xmllint xz yamllint yarn
yq zig zip zsh
"""
_PLAIN = """
act ant at bash bat black brew bundle cat cd check composer cp coverage cut dart date dd df diff dig dir du dune
edit elixir env find fish flask fmt fold gem glob go gradle hatch head heroku helm http id install java join julia just
karma kill kind lark last less link ln locate look lua make man maven meson mix mocha mongo more mount mv mysql netlify
next nginx nix node open pack parcel paste patch perl php ping prisma prove python rails rake read rm ruby run rye say
scala script search seq serverless service sh sort sox split standard stat strings swift tail task tee terraform test
tilt time top touch tr tree true turbo type uniq unittest vault vendor vercel vi view vite w watch wc webpack which who
write xxd yes zip
"""
_SUBCOMMANDS = """
add annotate apply attach audit bench bisect blame branch build bundle cat-file checkout cherry-pick ci clean clippy
clone commit compile compose config console cp create deploy describe destroy diff doc down download exec explain export
fetch fmt format fsck generate get grep history import init inspect install isready link lint list log login logs
ls-files ls-remote ls-tree merge merge-base migrate mount outdated pack plan port prune ps publish pull push rebase
reflog release remote remove repair reset restore revert rm rollback rollout run scale search seed serve set setup show
stash start stats status stop submodule switch sync tag test tidy top tree uninstall unlink up update upgrade validate
verify version vet view why worktree
"""
_WITH_SUBCOMMANDS = """
apt apt-get aws az bash bun bundle cargo composer conda deno docker docker-compose dotnet gcloud gem gh git glab go gradle
helm heroku java kubectl make maven mix mvn node npm pdm perl pip pipenv pnpm podman poetry python rails ruby rustup sh
ssh sudo systemctl terraform tofu uv vault yarn
"""
_STARTERS = """
sudo doas env time timeout nice nohup xargs command exec stdbuf setsid ionice unbuffer strace watch flock chronic npx
bunx uvx pipx busybox then do else if while until ! {
"""
_INTERPRETERS = """
awk bun clickhouse-client cypher-shell deno duckdb elixir gdb ghci groovy iex jq julia kubectl lldb lua mongo mongosh mysql
node ocaml perl php psql python r redis-cli rscript ruby scala sed sqlite yq
"""
_TALKERS = """
: [ [[ alias banner bg case cd clear cowsay declare done echo esac exit export false fg fi figlet for function hash history
in jobs local logger print printf pwd read readonly remand return say select seq set shift sleep tee test trap true type
typeset unalias unset wait wall yes
"""

KNOWN = frozenset(_KNOWN.split()) | frozenset(_PLAIN.split())
"""Names of programs, which stand for a call where they are written as one."""
TELLING = frozenset(_KNOWN.split()) - frozenset(_PLAIN.split())
"""Names that are no words of everyday: who writes one means the program."""
SUBCOMMANDS = frozenset(_SUBCOMMANDS.split())
"""Second words of calls, which are English whatever language is written around them."""
ORDINARY = SUBCOMMANDS | {"tests", "main", "master", "origin", "head", "error", "errors", "check", "file"}
"""Words that stand in many calls, and in many attempts."""
WITH_SUBCOMMANDS = frozenset(_WITH_SUBCOMMANDS.split())
"""Programs that do many things: that one of them was run says little without what it was told to do."""
STARTERS = frozenset(_STARTERS.split())
"""What stands before the program that is meant."""
RUNNERS = frozenset(
    {
        *(
            (name, "run")
            for name in ("uv", "poetry", "pipenv", "hatch", "pdm", "rye", "pixi", "conda", "mise")
        ),
        *((name, "exec") for name in ("bundle", "pnpm", "yarn", "npm", "mise", "direnv")),
        *(("pnpm", "dlx"), ("yarn", "dlx"), ("coverage", "run"), ("pipx", "run"), ("yarn", "run")),
    }
)
"""Pairs of words that start another program."""
ELSEWHERE = frozenset({"docker", "docker-compose", "podman", "kubectl", "nerdctl", "ssh", "vagrant", "lxc"})
"""Programs that run another one in another place, named somewhere behind."""
SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh", "fish", "eval"})
INTERPRETERS = frozenset(_INTERPRETERS.split())
"""Programs that carry out a text they are given."""
TALKERS = frozenset(_TALKERS.split())
"""What does nothing to the task: it prints or writes down what it is given, or waits, or is this system's own."""
ABOUT = frozenset({"--help", "--version"})
"""Options by which a program tells of itself, and does nothing."""
