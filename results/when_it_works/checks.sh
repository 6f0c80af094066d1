#!/usr/bin/env bash
# What `mfec check` says of the twelve environments: checks.csv.
set -eu
cd "$(dirname "$0")"
verdict() { # NAME ARGUMENTS...
    local name=$1 && shift
    printf '%s,%s,%s\n' "$name" "$(mfec check "$@" --seconds 30 --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["verdict"])')" "$*"
}
{
    echo env,verdict,arguments
    verdict "FrozenLake 8x8, not slippery" FrozenLake8x8-v1 --env-kwargs is_slippery=false
    verdict "FrozenLake 8x8, slippery" FrozenLake8x8-v1
    verdict Taxi Taxi-v4
    verdict CliffWalking CliffWalking-v1 --env-kwargs max_episode_steps=200
    verdict Blackjack Blackjack-v1
    verdict CartPole CartPole-v1
    verdict Acrobot Acrobot-v1
    verdict MountainCar MountainCar-v0
    verdict LunarLander LunarLander-v3
    verdict "MiniGrid Empty 8x8" MiniGrid-Empty-8x8-v0 --wrapper minigrid.wrappers:ImgObsWrapper
    verdict "MiniGrid DoorKey 6x6" MiniGrid-DoorKey-6x6-v0 --wrapper minigrid.wrappers:ImgObsWrapper
    verdict "MinAtar Breakout" MinAtar/Breakout-v1 --env-kwargs max_episode_steps=2000
    verdict "Q*bert" qbert
} | sed 's/^\(FrozenLake[^,]*\), \([^,]*\),/"\1, \2",/' > checks.csv
