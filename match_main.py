"""The command of doap_tf/commands/match.py, also installed as doap-match."""

from doap_tf.commands.match import run

if __name__ == "__main__":
    run()
