"""The command of doap_tf/commands/export.py, also installed as doap-export."""

from doap_tf.commands.export import run

if __name__ == "__main__":
    run()
